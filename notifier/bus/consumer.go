package bus

import (
	"cmp"

	"payledger/eventstore"
)

// Consumer is a reader of EVENTS with its own user, durable consumer and position. Name is that of
// the user and of the durable consumer; its inboxes begin with _INBOX_ and the name.
type Consumer struct {
	Name     string
	Project  string // whose payments it reads; "": those of all
	Password string // its bcrypt hash
	// Start is the id of the order that said where it begins, its creation or a
	// reset. A durable consumer of another order is replaced.
	Start    string
	Position eventstore.Position // the client has acknowledged all its events up to here
}

// Consumers are the consumers of an embedded server besides the subscriber's. All returns them as
// they are now; their names are free in the server's configuration and in JetStream. Progress is
// called with the position up to which a consumer has acknowledged its events, and how many after
// it wait.
type Consumers struct {
	All      func() []Consumer
	Progress func(c Consumer, acknowledged eventstore.Position, waiting uint64)
}

// List is All, or none without it.
func (c Consumers) List() []Consumer {
	if c.All == nil {
		return nil
	}
	return c.All()
}

// ReservedNames may not be those of a Consumer: they are users, inboxes or
// consumers already.
func ReservedNames() []string {
	return []string{UserLedger, UserRelay, SubscriberConsumer, ConnectorUser, EnforcerConsumer}
}

// Subjects are those on which the events of the consumer's payments are.
func (c Consumer) Subjects() []string { return PaymentSubjects(cmp.Or(c.Project, "*")) }

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
