package bus

import (
	"fmt"
	"strings"
)

// Accounts of the embedded server. Outsiders live in accounts of their own
// and reach into that of the ledger only through the exports below.
//
// Permissions alone would not do. Who may publish a request also names the
// subject its answer goes to, and JetStream answers with full rights: with
// "MSG.NEXT" and the reply $JS.API.STREAM.DELETE.SIGNALS a subscriber could
// delete a JetStream stream, with a signal and an events subject as the reply
// a connector could write into EVENTS. Across accounts the server replaces
// every such subject by one of its own, so an answer can only come back to
// the account that asked.
const (
	AccountLedger      = "LEDGER"
	accountSubscribers = "SUBSCRIBERS"
	accountConnectors  = "CONNECTORS"

	// Both users of the ledger's account are this process. Only the relay may
	// write events, so that none of the others can take an event's place.
	UserLedger = "ledger"
	UserRelay  = "relay"
)

// What passes between the accounts. A subscriber may ask for its own
// consumer's state and next messages and acknowledge them, by full name: with
// a wildcard in the consumer's place it could read through any consumer.
// Creating consumers stays ours, since a consumer's owner chooses what it
// reads and where it delivers.
const (
	subscriberInfo = "$JS.API.CONSUMER.INFO." + EventsStream + "." + SubscriberConsumer
	subscriberNext = "$JS.API.CONSUMER.MSG.NEXT." + EventsStream + "." + SubscriberConsumer
	subscriberAck  = "$JS.ACK." + EventsStream + "." + SubscriberConsumer + ".>"
)

// An account that is told nothing about JetStream gets the whole of its API
// from the server, answering that JetStream is not enabled, beside what it
// imports. With an import in the place of the first API subject it does not;
// nobody answers there.
const (
	infoAPI    = "$JS.API.INFO"
	infoNobody = "payledger.v1.nobody"
)

// Limits for the clients of each outside account. With those of the whole server
// they reserve files and memory for the ledger itself.
const (
	maxOutsideConnections   = 128    // of each account
	maxOutsideSubscriptions = 10_000 // of each connection
)

// accounts writes the accounts, users and permissions in the server's
// configuration language. Without outsiders the ledger's account stands
// alone.
func accounts(ledgerPassword string, outsiders *Credentials) string {
	ledger := account{
		name: AccountLedger, jetStream: true, user: Credential{UserLedger, ledgerPassword},
		denied: EventsSubjects, writer: Credential{UserRelay, ledgerPassword},
	}
	if outsiders == nil {
		return "accounts {\n" + ledger.String() + "}\n"
	}
	ledger.exports = []string{
		export("stream", PaymentSubjects, accountSubscribers, ""),
		export("stream", CheckpointsSubject, accountSubscribers, ""),
		export("service", subscriberInfo, accountSubscribers, ""),
		export("service", subscriberNext, accountSubscribers, ", response_type: Stream"),
		export("service", subscriberAck, accountSubscribers, ""),
		export("service", SignalsSubjects, accountConnectors, ""),
		export("stream", InboxConnector+".>", accountConnectors, ""),
		export("service", infoNobody, accountSubscribers+", "+accountConnectors, ""),
	}
	noAPI := fmt.Sprintf("{service: {account: %s, subject: %q}, to: %q}", AccountLedger, infoNobody, infoAPI)
	subscribers := account{
		name: accountSubscribers, user: outsiders.Subscriber, limited: true,
		imports: []string{
			imported("stream", PaymentSubjects),
			imported("stream", CheckpointsSubject),
			imported("service", subscriberInfo),
			imported("service", subscriberNext),
			imported("service", subscriberAck),
			noAPI,
		},
		publish:   []string{subscriberInfo, subscriberNext, subscriberAck},
		subscribe: []string{PaymentSubjects, CheckpointsSubject, InboxSubscriber + ".>"},
	}
	connectors := account{
		name: accountConnectors, user: outsiders.Connector, limited: true,
		imports: []string{
			imported("service", SignalsSubjects),
			imported("stream", InboxConnector+".>"),
			noAPI,
		},
		publish:   []string{SignalsSubjects},
		subscribe: []string{InboxConnector + ".>"},
	}
	return "accounts {\n" + ledger.String() + subscribers.String() + connectors.String() + "}\n"
}

type account struct {
	name               string
	jetStream          bool
	limited            bool // to maxOutsideConnections and maxOutsideSubscriptions
	user               Credential
	exports, imports   []string
	publish, subscribe []string   // permissions; none: everything
	denied             string     // what user may not publish; empty: nothing
	writer             Credential // who may publish that too
}

func (a account) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: {\n", a.name)
	if a.jetStream {
		b.WriteString("jetstream: enabled\n")
	}
	if a.limited {
		fmt.Fprintf(&b, "limits: {max_connections: %d, max_subscriptions: %d}\n", maxOutsideConnections, maxOutsideSubscriptions)
	}
	permissions := ""
	if a.publish != nil {
		permissions = fmt.Sprintf(", permissions: {publish: {allow: [%s]}, subscribe: {allow: [%s]}}",
			quoted(a.publish), quoted(a.subscribe))
	}
	writer := ""
	if a.denied != "" {
		permissions = fmt.Sprintf(", permissions: {publish: {deny: [%q]}}", a.denied)
		writer = fmt.Sprintf(", {user: %q, password: %q}", a.writer.User, a.writer.Password)
	}
	fmt.Fprintf(&b, "users: [{user: %q, password: %q%s}%s]\n", a.user.User, a.user.Password, permissions, writer)
	fmt.Fprintf(&b, "exports: [%s]\nimports: [%s]\n}\n", strings.Join(a.exports, ", "), strings.Join(a.imports, ", "))
	return b.String()
}

func export(kind, subject, to, more string) string {
	return fmt.Sprintf("{%s: %q, accounts: [%s]%s}", kind, subject, to, more)
}

func imported(kind, subject string) string {
	return fmt.Sprintf("{%s: {account: %s, subject: %q}}", kind, AccountLedger, subject)
}

func quoted(subjects []string) string {
	q := make([]string, len(subjects))
	for i, s := range subjects {
		q[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(q, ", ")
}
