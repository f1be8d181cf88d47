package installation

import (
	"slices"
	"strings"

	"payledger/domain"
)

// Consumer is one of those who read the events of payments from NATS with credentials
// and a position of their own, as the log knows it.
type Consumer struct {
	Name      string
	ProjectID string    // whose payments it reads; "": those of all
	Password  string    // its bcrypt hash
	Start     domain.ID // of the order that said where it begins: its creation or a reset
	From      uint64    // the position behind which it begins
}

// NATSConsumer is a consumer as it is shown to the operator.
type NATSConsumer struct {
	Name      string `json:"name"`
	ProjectID string `json:"project_id,omitzero"` // whose payments it reads; "": those of all

	// Position is up to where all its events are known to be acknowledged, Waiting
	// how many up to the end of the log are not; nil: no server runs.
	Position uint64  `json:"position"`
	Waiting  *uint64 `json:"waiting,omitzero"`
}

// NewNATSConsumer is a consumer with what its program connects with. The password
// is shown once.
type NewNATSConsumer struct {
	NATSConsumer
	User        string `json:"user"`
	Password    string `json:"password"`
	Stream      string `json:"stream"`
	Durable     string `json:"durable"`
	InboxPrefix string `json:"inbox_prefix"`
	Address     string `json:"nats_address,omitzero"` // "": the server does not listen now
}

// maxConsumerName bounds the name of a consumer.
const maxConsumerName = 32

// ValidConsumerName reports whether a text can be the name of a consumer: 1 to 32
// of a-z, 0-9, - and _, the first one a letter.
func ValidConsumerName(s string) bool {
	return len(s) <= maxConsumerName && domain.ValidRoute(s) && s[0] >= 'a'
}

// MaxConsumers bounds Installation.Consumers, so that their connections and the work that
// JetStream has with them stay bounded.
const MaxConsumers = 32

// Consumer finds a consumer; ok is false if there is none of that name.
func (i Installation) Consumer(name string) (c Consumer, ok bool) {
	at, ok := i.consumerAt(name)
	if ok {
		c = i.Consumers[at]
	}
	return c, ok
}

func (i Installation) consumerAt(name string) (int, bool) {
	return slices.BinarySearchFunc(i.Consumers, name, func(c Consumer, name string) int { return strings.Compare(c.Name, name) })
}

// CreateNATSConsumer makes a consumer. The name is valid and free in NATS, the project
// exists.
type CreateNATSConsumer NATSConsumerCreated

func (c CreateNATSConsumer) decide(i Installation) (domain.Event, error) {
	switch _, exists := i.Consumer(c.Name); {
	case exists:
		return nil, &domain.Refusal{Code: domain.NATSConsumerExists}
	case len(i.Consumers) >= MaxConsumers:
		return nil, &domain.Refusal{Code: domain.NATSConsumerLimit}
	}
	return NATSConsumerCreated(c), nil
}

// ResetNATSConsumer lets a consumer go on behind a position of the log.
type ResetNATSConsumer NATSConsumerReset

func (c ResetNATSConsumer) decide(i Installation) (domain.Event, error) {
	if _, exists := i.Consumer(c.Name); !exists {
		return nil, &domain.Refusal{Code: domain.NATSConsumerNotFound}
	}
	return NATSConsumerReset(c), nil
}

// RemoveNATSConsumer takes a consumer's credentials away.
type RemoveNATSConsumer NATSConsumerRemoved

func (c RemoveNATSConsumer) decide(i Installation) (domain.Event, error) {
	if _, exists := i.Consumer(c.Name); !exists {
		return nil, &domain.Refusal{Code: domain.NATSConsumerNotFound}
	}
	return NATSConsumerRemoved(c), nil
}
