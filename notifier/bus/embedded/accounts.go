package embedded

import (
	"cmp"
	"fmt"
	"strings"

	"payledger/domain/installation"
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
	AccountLedger     = "LEDGER"
	accountConnectors = "CONNECTORS"
	readerPrefix      = "READER_" // of the names of all others
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
	maxConsumerConnections  = 8      // of the account of each of bus.Consumers
	maxOutsideSubscriptions = 10_000 // of each connection

	// answerTime is how long a connector may answer a call; the caller has given up long before.
	answerTime = "30s"
)

// accounts writes the accounts, users and permissions in the server's configuration language.
// Without outsiders there is only the ledger's account.
func accounts(ledgerPassword string, outsiders *Credentials, consumers []installation.Consumer) string {
	users := fmt.Sprintf("jetstream: enabled\nusers: [{user: %q, password: %[2]q, permissions: {publish: {deny: [%q]}}}, {user: %q, password: %[2]q}]",
		bus.UserLedger, ledgerPassword, bus.EventsSubjects, bus.UserRelay)
	if outsiders == nil {
		return fmt.Sprintf("accounts {\n%s: {\n%s\n}\n}\n", AccountLedger, users)
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
	var exports, names []string // exports of the ledger's account
	outside := connectors.String()
	subscriber := installation.Consumer{Name: bus.SubscriberConsumer, Password: outsiders.Subscriber.Password}
	for i, c := range append([]installation.Consumer{subscriber}, consumers...) {
		r := reader(c)
		if i == 0 {
			r.connections = maxOutsideConnections
		}
		exports = append(exports,
			export("service", bus.InfoSubject(c.Name), r.name, ""),
			export("service", bus.NextSubject(c.Name), r.name, ", response_type: Stream"),
			export("service", bus.AckSubject(c.Name), r.name, ""))
		names, outside = append(names, r.name), outside+r.String()
	}
	readers := strings.Join(names, ", ")
	for _, s := range append(bus.PaymentSubjects("*"), bus.CheckpointsSubject) {
		exports = append(exports, export("stream", s, readers, ""))
	}
	exports = append(exports,
		export("service", bus.DetailsSubject("*", "*"), readers, ""),
		export("service", bus.SignalsSubjects, accountConnectors, ""),
		export("stream", bus.InboxConnector+".>", accountConnectors, ""),
		export("service", infoNobody, readers+", "+accountConnectors, ""),
	)
	return fmt.Sprintf("accounts {\n%s: {\n%s\nexports: [%s]\nimports: [{service: {account: %s, subject: %q}}]\n}\n%s}\n",
		AccountLedger, users, strings.Join(exports, ", "), accountConnectors, bus.CallsSubjects, outside)
}

// noAPI takes the place of JetStream's API in an account: see infoNobody.
func noAPI() string {
	return fmt.Sprintf("{service: {account: %s, subject: %q}, to: %q}", AccountLedger, infoNobody, infoAPI)
}

// account is that of outsiders.
type account struct {
	name               string
	connections        int // at most
	user               Credential
	exports, imports   []string
	publish, subscribe []string // permissions
	answers            bool     // may answer what it was asked on subscribe, once
}

func (a account) String() string {
	answers := ""
	if a.answers {
		answers = fmt.Sprintf(", allow_responses: {max: 1, expires: %q}", answerTime)
	}
	return fmt.Sprintf(`%s: {
limits: {max_connections: %d, max_subscriptions: %d}
users: [{user: %q, password: %q, permissions: {publish: {allow: [%s]}, subscribe: {allow: [%s]}%s}}]
exports: [%s]
imports: [%s]
}
`, a.name, a.connections, maxOutsideSubscriptions, a.user.User, a.user.Password, quoted(a.publish), quoted(a.subscribe), answers,
		strings.Join(a.exports, ", "), strings.Join(a.imports, ", "))
}

// reader is the account of one who reads EVENTS. In one account with others it could name
// their inboxes, or subjects of events that they listen on, in a request, and
// JetStream would answer there.
func reader(c installation.Consumer) account {
	info, next, ack, details := bus.InfoSubject(c.Name), bus.NextSubject(c.Name), bus.AckSubject(c.Name), bus.DetailsSubject(cmp.Or(c.ProjectID, "*"), "*")
	hears := bus.ConsumerSubjects(c)
	if c.ProjectID == "" {
		hears = append(hears, bus.CheckpointsSubject)
	}
	a := account{
		name: readerPrefix + c.Name, user: Credential{c.Name, c.Password}, connections: maxConsumerConnections,
		imports:   []string{imported("service", info), imported("service", next), imported("service", ack), imported("service", details), noAPI()},
		publish:   []string{info, next, ack, details},
		subscribe: append(hears, "_INBOX_"+c.Name+".>"),
	}
	for _, s := range hears {
		a.imports = append(a.imports, imported("stream", s))
	}
	return a
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
