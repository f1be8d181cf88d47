package notifier

import (
	"fmt"

	"payledger/domain"
	"payledger/eventstore"
)

// holder is the event that holds the claim on a signal's reference: the store
// named it when it was to record what the signal led to.
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
	h := &holder{stream: r.Stream, position: r.Position}
	switch event := event.(type) {
	case domain.PaymentPaid:
		h.says = event.Signal
	case domain.PaymentLateFunds:
		h.says = event.Signal
	default:
		return nil, fmt.Errorf("the record at position %d claims a reference and is %s", r.Position, event.Type())
	}
	return h, nil
}

// heed tells the command of the holder of its signal's reference: it is of
// another payment, or of this one and from before what the fold keeps.
func (h *holder) heed(c *domain.ApplySignal, s *signal) {
	switch {
	case h == nil:
	case h.stream == eventstore.PaymentStream(s.project, s.payment):
		c.Earlier = &h.says
	default:
		c.ReferenceUsed = true
	}
}
