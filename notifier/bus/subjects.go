package bus

import (
	"errors"
	"strings"

	"payledger/domain"
)

// The JetStream streams, and the consumers that have a name.
const (
	EventsStream  = "EVENTS"  // the log, copied by the relay
	SignalsStream = "SIGNALS" // providers' signals until they are judged
	ParkedStream  = "PARKED"  // signals that could not be judged, kept for the operator

	SubscriberConsumer = "subscriber" // of EVENTS, for the subscriber's credentials
	EnforcerConsumer   = "enforcer"   // of SIGNALS: what the names of its consumers begin with, see RouteConsumer
)

// OurStreams are the JetStream streams that a repair may be about.
func OurStreams() []string { return []string{EventsStream, SignalsStream, ParkedStream} }

// Subjects.
const (
	EventsPrefix    = "payledger.v1.events."
	EventsSubjects  = "payledger.v1.events.>"
	SignalsPrefix   = "payledger.v1.signals."
	SignalsSubjects = "payledger.v1.signals.>"
	ParkedSubject   = "payledger.v1.parked.signals"

	// CallsSubjects are where connectors elsewhere are asked; see CallSubject.
	CallsSubjects = "payledger.v1.connectors.*.*"
	callsPrefix   = "payledger.v1.connectors."
)

// The inboxes of the credentials, and of our own connection. Only we can subscribe to ours, and the
// enforcer does not answer to it.
const (
	InboxSubscriber = "_INBOX_subscriber"
	InboxConnector  = "_INBOX_connector"
	InboxLedger     = "_INBOX_ledger"
	inboxPlain      = "_INBOX"
)

// EventSubject is where an event of a type is published, such as
// payledger.v1.events.prj_X.payment.paid. It does not name the payment: JetStream keeps
// an entry in memory for each subject that it has ever seen.
func EventSubject(project, typ string) string { return EventsPrefix + project + "." + typ }

// PaymentSubjects are those of the events of payments, with their refunds and returns of
// late funds: of one project, or with "*" of all.
func PaymentSubjects(project string) []string {
	return []string{
		EventSubject(project, "payment.>"), EventSubject(project, "refund.>"), EventSubject(project, "return.>"),
	}
}

// RouteSignals are the subjects of all signals of a route.
func RouteSignals(route string) string { return SignalsPrefix + route + ".>" }

// RouteConsumer is the consumer of a route's signals.
func RouteConsumer(route string) string { return EnforcerConsumer + "-" + route }

// CallSubject is where the program that serves a route is asked a call.
func CallSubject(route, call string) string { return callsPrefix + route + "." + call }

// SignalAddress reads SignalSubject back.
func SignalAddress(subject string) (route, project string, payment domain.ID, err error) {
	rest, ok := strings.CutPrefix(subject, SignalsPrefix)
	t := strings.Split(rest, ".")
	if !ok || len(t) != 3 {
		return "", "", domain.ID{}, errors.New("the subject is not payledger.v1.signals.ROUTE.PROJECT.PAYMENT")
	}
	id, ok := domain.ParseID(t[2])
	if !ok {
		return "", "", domain.ID{}, errors.New("the subject's last part is not a payment id")
	}
	return t[0], t[1], id, nil
}

// maxReplySubject bounds the subject an answer may be asked on.
const maxReplySubject = 256

// ReplySubject is the subject the sender of a signal wants to be answered on,
// empty when it asks for none or for one that is not a connector's inbox.
// The enforcer may publish everywhere, its senders may not: an answer sent
// wherever they say would let them write events or speak to the JetStream API
// in its name.
func ReplySubject(headers map[string][]string) string {
	v := headers[ReplyHeader]
	if len(v) != 1 || len(v[0]) > maxReplySubject {
		return ""
	}
	prefix, rest, ok := strings.Cut(v[0], ".")
	if !ok || (prefix != inboxPlain && prefix != InboxConnector) {
		return ""
	}
	for token := range strings.SplitSeq(rest, ".") {
		if token == "" || strings.ContainsFunc(token, notInToken) {
			return ""
		}
	}
	return v[0]
}

// notInToken reports what may not be in a token of an inbox: wildcards, blanks, control characters
// and everything beyond ASCII.
func notInToken(r rune) bool { return r <= ' ' || r >= 0x7f || r == '*' || r == '>' }

// InfoSubject is where a durable consumer of EVENTS is asked for its state.
func InfoSubject(consumer string) string {
	return "$JS.API.CONSUMER.INFO." + EventsStream + "." + consumer
}

// NextSubject is where a consumer of EVENTS is asked for its next messages.
func NextSubject(consumer string) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + EventsStream + "." + consumer
}

// AckSubject is where the messages of a durable consumer of EVENTS are
// acknowledged.
func AckSubject(consumer string) string {
	return "$JS.ACK." + EventsStream + "." + consumer + ".>"
}
