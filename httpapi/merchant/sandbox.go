package merchant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// How long a sandbox request waits: for the payment's route, and for the
// provider's signal to be recorded.
const (
	routeWait  = 5 * time.Second
	routeLook  = 20 * time.Millisecond // from one look to the next
	signalWait = 10 * time.Second
)

// Sandbox plays the provider: it sends the signal a provider would send and
// answers once the signal is recorded, or when ctx ends. The reference is the
// provider's name for the attempt.
type Sandbox interface {
	SignalPayment(ctx context.Context, p domain.Payment, outcome domain.Outcome, reference string) (domain.SignalReply, error)
	SignalRefund(ctx context.Context, p domain.Payment, refund domain.ID, outcome domain.Outcome, reference string) (domain.SignalReply, error)
}

// SettlePayment answers POST /v1/sandbox/payments/{id}.
func (h Handlers) SettlePayment(x *edge.Exchange) error {
	outcome, err := outcomeOf(x.Body, paymentOutcomes()...)
	if err != nil {
		return err
	}
	p, err := h.api.SettlePayment(x.Context(), CallerOf(x), x.Vars["id"], outcome)
	return x.Answer(p.Object(), err)
}

// paymentOutcomes are those that the sandbox can give a payment.
func paymentOutcomes() []domain.Outcome {
	return []domain.Outcome{domain.OutcomePaid, domain.OutcomeFailed, domain.OutcomeExpired}
}

// refundOutcomes are those that the sandbox can give a refund.
func refundOutcomes() []domain.Outcome {
	return []domain.Outcome{domain.OutcomeSucceeded, domain.OutcomeFailed, domain.OutcomeReturned}
}

// SettlePayment has the sandbox say the outcome of a payment and returns the
// payment after it. The refusal is final_status when nothing changed. Needs
// payments:write.
func (a *API) SettlePayment(ctx context.Context, c Caller, id string, outcome domain.Outcome) (p domain.Payment, err error) {
	if err := a.Admit(&c, projects.PaymentsWrite, nil); err != nil {
		return p, err
	}
	if a.cfg.Sandbox == nil {
		return p, wire.Problem{Code: domain.PathNotFound}
	}
	if err := oneOutcome(outcome, paymentOutcomes()); err != nil {
		return p, err
	}
	if p, err = a.payment(ctx, c, id); err != nil {
		return p, err
	}
	if p, err = a.routed(ctx, p); err != nil {
		return p, err
	}
	final := &domain.Refusal{Code: domain.FinalStatus, PaymentStatus: p.Status}
	if p.Route == "" {
		return p, final // it never had a provider who could say anything
	}
	ctx, cancel := context.WithTimeout(ctx, signalWait)
	defer cancel()
	reference := a.reference()
	reply, err := a.cfg.Sandbox.SignalPayment(ctx, p, outcome, reference)
	if err != nil {
		return p, err
	}
	after, ok, err := a.cfg.Views.Payment(ctx, p.ID)
	if err != nil || !ok {
		return p, errors.Join(err, errGone(ok))
	}
	final.PaymentStatus = after.Status
	return after, a.verdict(ctx, p, reference, reply, final)
}

// SettleRefund answers POST /v1/sandbox/refunds/{id}. The operator may name a return of
// late funds, too.
func (h Handlers) SettleRefund(x *edge.Exchange) error {
	outcome, err := outcomeOf(x.Body, refundOutcomes()...)
	if err != nil {
		return err
	}
	c := CallerOf(x)
	p, r, err := h.api.SettleRefund(x.Context(), c, x.Vars["id"], outcome)
	if no, ok := errors.AsType[*domain.Refusal](err); ok && no.Code == domain.RefundNotFound && c.operator {
		back, err := h.api.settleReturn(x.Context(), x.Vars["id"], outcome)
		return x.Answer(back, err)
	}
	return x.Answer(r.Object(p.ID), err)
}

// SettleRefund has the sandbox say the outcome of a refund and returns its
// payment and the refund after it. The refusal is final_status when nothing
// changed. Needs refunds:write.
func (a *API) SettleRefund(ctx context.Context, c Caller, id string, outcome domain.Outcome) (p domain.Payment, r domain.Refund, err error) {
	if err := a.Admit(&c, projects.RefundsWrite, nil); err != nil {
		return p, r, err
	}
	if a.cfg.Sandbox == nil {
		return p, r, wire.Problem{Code: domain.PathNotFound}
	}
	if err := oneOutcome(outcome, refundOutcomes()); err != nil {
		return p, r, err
	}
	if p, r, err = a.refund(ctx, c, id); err != nil {
		return p, r, err
	}
	ctx, cancel := context.WithTimeout(ctx, signalWait)
	defer cancel()
	reference := a.reference()
	reply, err := a.cfg.Sandbox.SignalRefund(ctx, p, r.ID, outcome, reference) // a payment with a refund has a route
	if err != nil {
		return p, r, err
	}
	p, r, ok, err := a.cfg.Views.Refund(ctx, r.ID)
	if err != nil || !ok {
		return p, r, errors.Join(err, errGone(ok))
	}
	return p, r, a.verdict(ctx, p, reference, reply, &domain.Refusal{Code: domain.FinalStatus, RefundStatus: r.Status})
}

// settleReturn has the sandbox send the outcome of a return of late funds, and returns the return
// after it. Errors are those of SettleRefund.
func (a *API) settleReturn(ctx context.Context, id string, outcome domain.Outcome) (r domain.Return, err error) {
	missing := &domain.Refusal{Code: domain.RefundNotFound}
	wanted, ok := domain.ParseID(id)
	if !ok {
		return r, missing
	}
	asked := domain.IDTime(wanted) // when it was recorded, too
	before, err := a.cfg.Views.PositionAt(ctx, asked-1)
	if err != nil {
		return r, err
	}
	var p domain.Payment
	for record, err := range a.cfg.Ledger.Codec.Events(a.cfg.Ledger.Store.Scan(ctx, before, eventstore.Filter{Kind: eventstore.KindPayment})) {
		if err != nil {
			return r, err
		}
		if domain.InstantOf(record.At) > asked {
			return r, missing
		}
		if created, is := record.Event.(domain.ReturnCreated); is && created.ReturnID == wanted {
			of, _ := domain.ParseID(record.Stream.ID)
			if p, _, err = a.cfg.Views.Payment(ctx, of); err != nil {
				return r, err
			}
			break
		}
	}
	if r, ok = p.Return(wanted); !ok {
		return r, missing
	}
	ctx, cancel := context.WithTimeout(ctx, signalWait)
	defer cancel()
	reference := a.reference()
	reply, err := a.cfg.Sandbox.SignalRefund(ctx, p, wanted, outcome, reference)
	if err != nil {
		return r, err
	}
	if p, _, err = a.cfg.Views.Payment(ctx, p.ID); err != nil {
		return r, err
	}
	r, _ = p.Return(wanted)
	return r, a.verdict(ctx, p, reference, reply, &domain.Refusal{Code: domain.FinalStatus, RefundStatus: r.Status})
}

func oneOutcome(o domain.Outcome, allowed []domain.Outcome) error {
	if slices.Contains(allowed, o) {
		return nil
	}
	return domain.FieldErrors{{Field: "outcome", Code: domain.InvalidValue, Allowed: edge.Texts(allowed)}}
}

// reference is the provider's name for a new attempt.
func (a *API) reference() string { return "sandbox-" + a.cfg.IDs.Next().String() }

func errGone(there bool) error {
	if there {
		return nil
	}
	return errors.New("an object that was just found is missing from the views")
}

// verdict reports whether the signal with the reference changed anything. The reply to a repeated
// one says only that it was recorded before: then the log is searched for its effect. A node that
// no longer leads may not have it yet.
func (a *API) verdict(ctx context.Context, p domain.Payment, reference string, reply domain.SignalReply, final *domain.Refusal) error {
	result := reply.Result
	if result == domain.SignalUnchanged {
		for r, err := range a.cfg.Ledger.Codec.Events(a.cfg.Ledger.Store.Load(ctx, eventstore.PaymentStream(p.Project, p.ID))) {
			if err != nil {
				return err
			}
			if f := domain.FactsOf(r.Event); f.Signal != nil && f.Signal.Reference == reference {
				result = f.Result
			}
		}
	}
	switch result {
	case domain.SignalApplied:
		return nil
	case domain.SignalRefused, domain.SignalLateFunds:
		return final
	case domain.SignalUnchanged:
		return fmt.Errorf("%w: this node does not have what the sandbox's signal did", eventstore.ErrUnconfirmed)
	}
	return errors.New("the sandbox's signal was not recorded: " + reply.Result + " " + reply.Reason)
}

// routed waits until the payment has left the status created, for at most
// routeWait.
func (a *API) routed(ctx context.Context, p domain.Payment) (domain.Payment, error) {
	for late := time.After(routeWait); p.Status == domain.Created; {
		select {
		case <-ctx.Done():
			return p, ctx.Err()
		case <-late:
			return p, &domain.TooEarlyError{}
		case <-time.After(routeLook):
		}
		var ok bool
		var err error
		if p, ok, err = a.cfg.Views.Payment(ctx, p.ID); err != nil || !ok {
			return p, errors.Join(err, errGone(ok))
		}
	}
	return p, nil
}

// outcomeOf reads a body of the one member outcome.
func outcomeOf(body []byte, allowed ...domain.Outcome) (outcome domain.Outcome, err error) {
	err = edge.ReadObject(body, edge.Field{
		Name: "outcome", Required: true, Allowed: edge.Texts(allowed),
		Read: edge.Text(func(s string) domain.FieldErrors {
			if outcome = domain.Outcome(s); !slices.Contains(allowed, outcome) {
				return edge.Fault(domain.InvalidValue)
			}
			return nil
		}),
	})
	return outcome, err
}
