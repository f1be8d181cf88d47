package embedded

import (
	"cmp"
	"fmt"
	"strings"

	"payledger/notifier/bus"
)

// Accounts of the embedded server. Outsiders have separate accounts and reach that of the ledger
// only through the exports below.
//
// Permissions alone are not sufficient. A client that may publish a request also names the subject
// its answer goes to, and JetStream answers with full rights: with "MSG.NEXT" and the reply
// $JS.API.STREAM.DELETE.SIGNALS a subscriber could delete a JetStream stream, with a signal and an
// events subject as the reply a connector could write into EVENTS. Across accounts the server
// replaces every such subject by its own, so an answer can only come back to the account that
// asked.
const (
	AccountLedger      = "LEDGER"
	accountSubscribers = "SUBSCRIBERS"
	accountConnectors  = "CONNECTORS"
)

// What passes between the accounts: a reader may ask for its own consumer's state
// and next messages and acknowledge them, by full name. With a wildcard in the
// consumer's place it could read through any consumer. Creating consumers stays
// ours, since a consumer's owner chooses what it reads and where it delivers.

// To an account whose configuration does not mention JetStream, the server adds
// the whole of its API, which answers that JetStream is not enabled. It does not if
// the account imports something under the first API subject; nothing answers there.
const (
	infoAPI    = "$JS.API.INFO"
	infoNobody = "payledger.v1.nobody"
)

// Limits for the clients of each outside account. With those of the whole server
// they reserve files and memory for the ledger itself.
const (
	maxOutsideConnections   = 128    // of the accounts of subscriber and connector each
	maxConsumerConnections  = 8      // of the account of each Consumer
	maxOutsideSubscriptions = 10_000 // of each connection

	// answerTime is how long a connector may answer a call; the caller has given up long before.
	answerTime = "30s"
)

// accounts writes the accounts, users and permissions in the server's configuration language.
// Without outsiders there is only the ledger's account.
func accounts(ledgerPassword string, outsiders *Credentials, consumers []bus.Consumer) string {
	ledger := account{
		name: AccountLedger, jetStream: true, user: Credential{bus.UserLedger, ledgerPassword},
		denied: bus.EventsSubjects, writer: Credential{bus.UserRelay, ledgerPassword},
	}
	if outsiders == nil {
		return "accounts {\n" + ledger.String() + "}\n"
	}
	info, next, ack := bus.InfoSubject(bus.SubscriberConsumer), bus.NextSubject(bus.SubscriberConsumer), bus.AckSubject(bus.SubscriberConsumer)
	details := bus.DetailsSubject("*", "*")
	subscribers := account{
		name: accountSubscribers, user: outsiders.Subscriber, connections: maxOutsideConnections,
		imports: []string{
			imported("stream", bus.CheckpointsSubject),
			imported("service", info),
			imported("service", next),
			imported("service", ack),
			imported("service", details),
			noAPI(),
		},
		publish:   []string{info, next, ack, details},
		subscribe: append(bus.PaymentSubjects("*"), bus.CheckpointsSubject, bus.InboxSubscriber+".>"),
	}
	connectors := account{
		name: accountConnectors, user: outsiders.Connector, connections: maxOutsideConnections,
		imports: []string{
			imported("service", bus.SignalsSubjects),
			imported("stream", bus.InboxConnector+".>"),
			noAPI(),
		},
		exports:   []string{export("service", bus.CallsSubjects, AccountLedger, "")},
		publish:   []string{bus.SignalsSubjects},
		subscribe: []string{bus.InboxConnector + ".>", bus.CallsSubjects},
		answers:   true,
	}
	ledger.imports = []string{fmt.Sprintf("{service: {account: %s, subject: %q}}", accountConnectors, bus.CallsSubjects)}
	readers, outside := accountSubscribers, connectors.String()
	for _, c := range consumers {
		readers += ", " + accountName(c)
		ledger.exports = append(ledger.exports,
			export("service", bus.InfoSubject(c.Name), accountName(c), ""),
			export("service", bus.NextSubject(c.Name), accountName(c), ", response_type: Stream"),
			export("service", bus.AckSubject(c.Name), accountName(c), ""))
		outside += consumerAccount(c).String()
	}
	for _, s := range bus.PaymentSubjects("*") {
		subscribers.imports = append(subscribers.imports, imported("stream", s))
		ledger.exports = append(ledger.exports, export("stream", s, readers, ""))
	}
	ledger.exports = append(ledger.exports,
		export("stream", bus.CheckpointsSubject, accountSubscribers, ""),
		export("service", info, accountSubscribers, ""),
		export("service", next, accountSubscribers, ", response_type: Stream"),
		export("service", ack, accountSubscribers, ""),
		export("service", details, readers, ""),
		export("service", bus.SignalsSubjects, accountConnectors, ""),
		export("stream", bus.InboxConnector+".>", accountConnectors, ""),
		export("service", infoNobody, readers+", "+accountConnectors, ""),
	)
	return "accounts {\n" + ledger.String() + subscribers.String() + outside + "}\n"
}

// noAPI takes the place of JetStream's API in an account: see infoNobody.
func noAPI() string {
	return fmt.Sprintf("{service: {account: %s, subject: %q}, to: %q}", AccountLedger, infoNobody, infoAPI)
}

type account struct {
	name               string
	jetStream          bool
	connections        int // at most; then maxOutsideSubscriptions holds too. 0: no limits
	user               Credential
	exports, imports   []string
	publish, subscribe []string   // permissions; none: everything
	answers            bool       // may answer what it was asked on subscribe, once
	denied             string     // what user may not publish; empty: nothing
	writer             Credential // who may publish that too
}

func (a account) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: {\n", a.name)
	if a.jetStream {
		b.WriteString("jetstream: enabled\n")
	}
	if a.connections > 0 {
		fmt.Fprintf(&b, "limits: {max_connections: %d, max_subscriptions: %d}\n", a.connections, maxOutsideSubscriptions)
	}
	permissions := ""
	if a.publish != nil {
		answers := ""
		if a.answers {
			answers = fmt.Sprintf(", allow_responses: {max: 1, expires: %q}", answerTime)
		}
		permissions = fmt.Sprintf(", permissions: {publish: {allow: [%s]}, subscribe: {allow: [%s]}%s}",
			quoted(a.publish), quoted(a.subscribe), answers)
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

// consumerAccount is the consumer's own account. In one account with others it could name
// their inboxes, or subjects of events that they listen on, in a request, and
// JetStream would answer there.
func consumerAccount(c bus.Consumer) account {
	info, next, ack := bus.InfoSubject(c.Name), bus.NextSubject(c.Name), bus.AckSubject(c.Name)
	details := bus.DetailsSubject(cmp.Or(c.Project, "*"), "*")
	a := account{
		name: accountName(c), user: Credential{c.Name, c.Password}, connections: maxConsumerConnections,
		imports:   []string{imported("service", info), imported("service", next), imported("service", ack), imported("service", details), noAPI()},
		publish:   []string{info, next, ack, details},
		subscribe: append(c.Subjects(), "_INBOX_"+c.Name+".>"),
	}
	for _, s := range c.Subjects() {
		a.imports = append(a.imports, imported("stream", s))
	}
	return a
}

func accountName(c bus.Consumer) string { return "CONSUMER_" + c.Name }

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
