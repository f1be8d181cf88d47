package installation

import "payledger/domain"

// NATSConsumer is one of those who read the events of payments from NATS with
// credentials and a position of their own, as it is shown to the operator.
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
	Address     string `json:"nats_address,omitzero"` // "": nobody can connect now
}

// maxConsumerName bounds the name of a consumer.
const maxConsumerName = 32

// ValidConsumerName reports whether a text can be the name of a consumer: 1 to 32
// of a-z, 0-9, - and _, the first one a letter.
func ValidConsumerName(s string) bool {
	return len(s) <= maxConsumerName && domain.ValidRoute(s) && s[0] >= 'a'
}
