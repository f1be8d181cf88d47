package bus

import (
	"fmt"

	"payledger/eventstore"
)

// Consumer is a reader of EVENTS with a user, a durable consumer and a position of
// its own. Name is that of the user and of the durable consumer; its inboxes begin
// with _INBOX_ and the name.
type Consumer struct {
	Name     string
	Project  string // whose payments it reads; "": those of all
	Password string // its bcrypt hash
	// Start is the id of the order that said where it begins, its creation or a
	// reset. A durable consumer of another order is replaced.
	Start    string
	Position eventstore.Position // up to here all its events are known to be acknowledged
}

// Consumers are the consumers of an embedded server beside the subscriber's. All
// returns them as they are now; they hold names that are free in the server's
// configuration and in JetStream. Progress is told how far a consumer got, and how
// many events up to now wait for it.
type Consumers struct {
	All      func() []Consumer
	Progress func(c Consumer, acknowledged eventstore.Position, waiting uint64)
}

// MaxConsumers bounds Consumers.All, so that their connections and the work that
// JetStream has with them stay bounded.
const MaxConsumers = 32

// ReservedNames may not be those of a Consumer: they are users, inboxes or
// consumers already.
func ReservedNames() []string {
	return []string{UserLedger, UserRelay, SubscriberConsumer, connectorUser, EnforcerConsumer}
}

// Subjects are those on which the events of the consumer's payments are.
func (c Consumer) subjects() string {
	if c.Project == "" {
		return PaymentSubjects
	}
	return EventsPrefix + c.Project + ".payment.>"
}

func (c Consumer) inbox() string { return "_INBOX_" + c.Name }

// The subjects on which a durable consumer of EVENTS is asked for its state and
// its next messages, and on which they are acknowledged.
func infoSubject(consumer string) string {
	return "$JS.API.CONSUMER.INFO." + EventsStream + "." + consumer
}

func nextSubject(consumer string) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + EventsStream + "." + consumer
}

func ackSubject(consumer string) string {
	return "$JS.ACK." + EventsStream + "." + consumer + ".>"
}

// account is the consumer's own account. In one account with others it could name
// their inboxes, or subjects of events that they listen on, in a request, and
// JetStream would answer there.
func (c Consumer) account() account {
	info, next, ack := infoSubject(c.Name), nextSubject(c.Name), ackSubject(c.Name)
	return account{
		name: c.accountName(), user: Credential{c.Name, c.Password}, connections: maxConsumerConnections,
		imports: []string{
			imported("stream", c.subjects()), imported("service", info), imported("service", next), imported("service", ack), noAPI(),
		},
		publish:   []string{info, next, ack},
		subscribe: []string{c.subjects(), c.inbox() + ".>"},
	}
}

func (c Consumer) accountName() string { return "CONSUMER_" + c.Name }

// exports of the ledger's account to the consumer's.
func (c Consumer) exports() []string {
	return []string{
		export("service", infoSubject(c.Name), c.accountName(), ""),
		export("service", nextSubject(c.Name), c.accountName(), ", response_type: Stream"),
		export("service", ackSubject(c.Name), c.accountName(), ""),
	}
}

// ReloadConsumers lets the running server take over the consumers that there are
// now. Who is none any more is disconnected; the others' connections stay.
func (s *Server) ReloadConsumers() error {
	if s.starting.Load() {
		return ErrServerStarting
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrServerClosed
	case s.current == nil:
		return ErrServerStarting
	case s.config.Listen == "":
		return nil
	}
	// nats-server 2.15 subscribes the imports of an account that is new in a reload
	// only at the next one: without the second, its requests find nobody.
	for range 2 {
		o, err := s.options()
		if err != nil {
			return err
		}
		if err := s.current.ReloadOptions(o); err != nil {
			return fmt.Errorf("changing the consumers of the embedded NATS server: %w", err)
		}
	}
	return nil
}

func (s *Server) consumers() []Consumer {
	if s.config.Consumers.All == nil {
		return nil
	}
	return s.config.Consumers.All()
}
