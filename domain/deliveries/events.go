package deliveries

import (
	"errors"
	"fmt"

	"payledger/domain"
)

// TypeNoted is the wire name of the one event.
const TypeNoted = "deliveries.noted"

// Noted records what became of deliveries in some 10 ms, or what was asked for. It
// stands in a stream of the installation, not of a project: merchants ask for their
// deliveries and do not read it.
type Noted struct {
	At        domain.Instant `json:"at,omitzero"`     // by the sender's clock; 0: it was asked for, and no sender wrote it
	Begins    bool           `json:"begins,omitzero"` // it is the first of this sender: an attempt whose end is missing is another's
	Base      uint64         `json:"base,omitzero"`   // of the first sender in the log: what was sent of the events up to there is unknown
	Endpoints []string       `json:"endpoints"`
	Entries   []Text         `json:"entries"`
}

// Type implements domain.Event.
func (Noted) Type() string { return TypeNoted }

// Entry reads an entry. The error says why it is none.
func (n Noted) Entry(i int) (endpoint string, e Entry, err error) {
	if e, err = n.Entries[i].Entry(); err != nil {
		return "", e, err
	}
	if e.Endpoint >= len(n.Endpoints) {
		return "", e, fmt.Errorf("the entry %q is of endpoint %d of %d", n.Entries[i], e.Endpoint, len(n.Endpoints))
	}
	return n.Endpoints[e.Endpoint], e, nil
}

// Check says what cannot be in an event that this program writes.
func (n Noted) Check() error {
	if n.At == 0 && n.Begins {
		return errors.New("a sender begins at no time")
	}
	for i := range n.Entries {
		if _, _, err := n.Entry(i); err != nil {
			return err
		}
	}
	return nil
}

// Events is the registry of events of deliveries.
func Events() []domain.EventType {
	at := domain.Instant(1795169730123)
	id := domain.ID{1, 160, 112, 116, 98, 90, 26, 100, 54, 67, 17, 187, 4, 24, 14, 3}
	return []domain.EventType{domain.NewEventType(1, Noted{
		At: at, Begins: true, Base: 88417, Endpoints: []string{"we_01M7W78FJBM8T4R7B5N0C1D2E3"},
		Entries: []Text{
			Entry{Payment: id, Sequence: 3, What: Begun}.Text(),
			Entry{Payment: id, Sequence: 3, What: Delivered, Status: 200, Took: 12}.Text(),
			Entry{Payment: id, Sequence: 3, What: Failed, Class: "timeout", Took: 15000, Wait: 5321, Pause: 31250}.Text(),
			Entry{Payment: id, Sequence: 3, What: Requested, Event: id, Kind: domain.KindPaymentPaid, Position: 88417}.Text(),
		},
	})}
}
