package merchant

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/edge"
)

// How long a sandbox request waits: for the payment's route, and for the
// provider's signal to be recorded.
const (
	routeWait  = 5 * time.Second
	signalWait = 10 * time.Second
)

// Sandbox plays the provider: it sends the signal a provider would send and
// answers once the signal is recorded, or when ctx ends. The reference is the
// provider's name for the attempt.
type Sandbox interface {
	SignalPayment(ctx context.Context, p domain.Payment, outcome domain.Outcome, reference string) (domain.SignalReply, error)
	SignalRefund(ctx context.Context, p domain.Payment, refund domain.ID, outcome domain.Outcome, reference string) (domain.SignalReply, error)
}

// settlePayment answers POST /v1/sandbox/payments/{id}.
func (a *API) SettlePayment(x *edge.Exchange) error {
	outcome, err := OutcomeOf(x.Body, domain.OutcomePaid, domain.OutcomeFailed, domain.OutcomeExpired)
	if err != nil {
		return err
	}
	p, err := a.payment(x, x.Vars["id"])
	if err != nil {
		return err
	}
	p, err = a.SignalPayment(x.Context(), p, outcome)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, p.Object())
}

// settleRefund answers POST /v1/sandbox/refunds/{id}.
func (a *API) SettleRefund(x *edge.Exchange) error {
	outcome, err := OutcomeOf(x.Body, domain.OutcomeSucceeded, domain.OutcomeFailed)
	if err != nil {
		return err
	}
	p, r, err := a.refund(x, x.Vars["id"])
	if err != nil {
		return err
	}
	r, err = a.SignalRefund(x.Context(), p, r.ID, outcome)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, r.Object(p.ID))
}

// settler sends the signals of a provider and tells what became of them.
type Settler struct{ Cfg Config }

// signalPayment has the sandbox say the outcome of a payment, once it has a
// route, and answers the payment after it. The error is a final_status
// refusal when nothing changed.
func (s Settler) SignalPayment(ctx context.Context, p domain.Payment, outcome domain.Outcome) (domain.Payment, error) {
	p, err := s.routed(ctx, p)
	if err != nil {
		return p, err
	}
	final := &domain.Refusal{Code: domain.FinalStatus, PaymentStatus: p.Status}
	if p.Route == "" {
		return p, final // it never had a provider who could say anything
	}
	ctx, cancel := context.WithTimeout(ctx, signalWait)
	defer cancel()
	reply, err := s.Cfg.Sandbox.SignalPayment(ctx, p, outcome, s.reference())
	if err != nil {
		return p, err
	}
	after, ok, err := s.Cfg.Views.Payment(ctx, p.ID)
	if err != nil || !ok {
		return p, errors.Join(err, errGone(ok))
	}
	final.PaymentStatus = after.Status
	return after, verdictOf(reply, final)
}

// signalRefund does the same for a refund. A payment with a refund has a
// route.
func (s Settler) SignalRefund(ctx context.Context, p domain.Payment, id domain.ID, outcome domain.Outcome) (domain.Refund, error) {
	ctx, cancel := context.WithTimeout(ctx, signalWait)
	defer cancel()
	reply, err := s.Cfg.Sandbox.SignalRefund(ctx, p, id, outcome, s.reference())
	if err != nil {
		return domain.Refund{}, err
	}
	_, r, ok, err := s.Cfg.Views.Refund(ctx, id)
	if err != nil || !ok {
		return r, errors.Join(err, errGone(ok))
	}
	return r, verdictOf(reply, &domain.Refusal{Code: domain.FinalStatus, RefundStatus: r.Status})
}

// reference is the provider's name for a new attempt.
func (s Settler) reference() string { return "sandbox-" + s.Cfg.IDs.Next().String() }

func errGone(there bool) error {
	if there {
		return nil
	}
	return errors.New("an object that was just found is missing from the views")
}

// verdictOf tells whether the signal changed anything.
func verdictOf(reply domain.SignalReply, final *domain.Refusal) error {
	switch reply.Result {
	case domain.SignalApplied, domain.SignalUnchanged:
		return nil
	case domain.SignalRefused, domain.SignalLateFunds:
		return final
	}
	return errors.New("the sandbox's signal was not recorded: " + reply.Result + " " + reply.Reason)
}

// errMoved ends a wait: the payment has a new event.
var errMoved = errors.New("the payment moved on")

// routed waits until the payment has left the status created, for at most
// routeWait.
func (s Settler) routed(ctx context.Context, p domain.Payment) (domain.Payment, error) {
	wait, cancel := context.WithTimeout(ctx, routeWait)
	defer cancel()
	its := eventstore.Filter(eventstore.PaymentStream(p.Project, p.ID))
	for p.Status == domain.Created {
		// The position is read before the payment, so that no event falls
		// between the two.
		from, err := s.Cfg.Ledger.Store.Last(wait)
		if err != nil {
			return p, err
		}
		var ok bool
		if p, ok, err = s.Cfg.Views.Payment(wait, p.ID); err != nil || !ok {
			return p, errors.Join(err, errGone(ok))
		}
		if p.Status != domain.Created {
			break
		}
		err = s.Cfg.Ledger.Store.Follow(wait, from, its, func(eventstore.Stored) error { return errMoved })
		switch {
		case errors.Is(err, errMoved):
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			return p, &domain.TooEarlyError{}
		default:
			return p, err
		}
	}
	return p, nil
}

// outcomeOf reads a body of the one member outcome.
func OutcomeOf(body []byte, allowed ...domain.Outcome) (domain.Outcome, error) {
	members, err := edge.DecodeObject(body)
	if err != nil {
		return "", err
	}
	var fields domain.FieldErrors
	refuse := func(f *domain.FieldError) { fields = append(fields, f) }
	var outcome domain.Outcome
	sent := false
	for _, m := range members {
		if m.Name != "outcome" {
			refuse(&domain.FieldError{Field: m.Name, Code: domain.UnknownField})
			continue
		}
		if m.Value.Kind() == 'n' {
			continue
		}
		sent = true
		s, ok := edge.Text(m.Value)
		switch outcome = domain.Outcome(s); {
		case !ok:
			refuse(&domain.FieldError{Field: m.Name, Code: domain.WrongType})
		case !slices.Contains(allowed, outcome):
			refuse(&domain.FieldError{Field: m.Name, Code: domain.InvalidValue, Allowed: edge.Texts(allowed)})
		}
	}
	if !sent {
		refuse(&domain.FieldError{Field: "outcome", Code: domain.Required, Allowed: edge.Texts(allowed)})
	}
	if len(fields) > 0 {
		return "", edge.InOrder(fields)
	}
	return outcome, nil
}
