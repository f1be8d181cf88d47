package signals

import (
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/eventstore"
)

// holder is the event that holds the claim on a signal's reference. The store
// names it when it refuses to record what the signal led to.
type holder struct {
	stream   eventstore.Stream
	position eventstore.Position
	says     domain.Signal
}

func (e *Enforcer) holderIn(r eventstore.Stored) (*holder, error) {
	event, err := e.config.Ledger.Codec.Event(r)
	if err != nil {
		return nil, err
	}
	f := domain.FactsOf(event)
	if f.ReferenceSince == 0 {
		return nil, &eventstore.CorruptError{Position: r.Position, Reason: "it claims a reference and is " + event.Type()}
	}
	return &holder{stream: r.Stream, position: r.Position, says: *f.Signal}, nil
}

func (h *holder) addToLine(line *zerolog.Event) *zerolog.Event {
	return line.Str("holder_project", h.stream.Project).Str("holder_payment", h.stream.ID).Uint64("holder_position", uint64(h.position))
}
