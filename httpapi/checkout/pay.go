package checkout

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"payledger/domain"
	"payledger/httpapi/ui"
)

// maxForm is the longest body of a form, in bytes; a real one has about 90.
const maxForm = 4 << 10

// pay takes a form. On a route with a provider it hands the customer over to it.
// Else it has the sandbox signal the chosen outcome, waits until that is recorded,
// and sends the customer back to the page, which shows what the log says now. A
// form for a payment that is not open any more changes nothing and leads to the
// page as well.
func (h *handler) pay(w http.ResponseWriter, v *visit) error {
	r := v.request
	if err := h.origins.Check(r); err != nil {
		return &failure{status: http.StatusForbidden, why: foreignForm, cause: err}
	}
	ctx := r.Context()
	p, err := h.paymentBehind(ctx, v)
	if err != nil {
		return err
	}
	form, err := readForm(w, r)
	if err != nil {
		return err
	}
	reference, ok := h.Links.openForm(v, one(form["form"]))
	if !ok {
		return &failure{status: http.StatusForbidden, why: unknownForm}
	}
	if p, err = h.awaitRoute(ctx, v, p, routeWait); err != nil {
		return err
	}
	switch h.stateOf(p) {
	case paused:
		return payingPaused()
	case orphaned: // the page says so
		w.Header().Set("Location", v.here())
		w.WriteHeader(http.StatusSeeOther)
		return nil
	}
	if _, ok := h.provider(p); ok {
		return h.handOver(w, v, p, one(form["form"]))
	}
	if h.Sandbox == nil {
		if stateOf(p, h.now()) == preparing {
			return &failure{status: http.StatusServiceUnavailable, why: notReady, retryAfter: 5}
		}
		return &failure{status: http.StatusMethodNotAllowed, why: badMethod, allow: readMethods}
	}
	choice := one(form["outcome"])
	outcome, ok := outcomes(choice)
	if !ok {
		return &failure{status: http.StatusBadRequest, why: badForm}
	}
	err = h.decide(ctx, v, p, outcome, reference)
	var f *failure
	if errors.As(err, &f) && f.status == http.StatusServiceUnavailable {
		f.form, f.outcome = one(form["form"]), choice
	}
	if err != nil {
		return err
	}
	w.Header().Set("Location", v.here())
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

func readForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	form, status, err := ui.ReadForm(w, r, maxForm)
	if err != nil {
		return nil, &failure{status: status, why: badForm, cause: err}
	}
	return form, nil
}

// one returns a field that was sent exactly once, else nothing.
func one(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// decide returns nil when the payment is not open any more or once the outcome is recorded, also if
// it changed nothing: the page shows that. A failure with status 503 leaves open whether the
// outcome counted; the same form may be sent again.
func (h *handler) decide(ctx context.Context, v *visit, p domain.Payment, outcome domain.Outcome, reference string) error {
	if stateOf(p, h.now()) == preparing {
		return &failure{status: http.StatusServiceUnavailable, why: notReady, retryAfter: 5}
	}
	ctx, cancel := context.WithTimeout(ctx, signalWait)
	defer cancel()
	undecidedBy := func(cause error) error {
		return &failure{status: http.StatusServiceUnavailable, why: undecided, retryAfter: 5, cause: cause}
	}
	leave, err := h.turns.enter(ctx, p.ID)
	if err != nil {
		return undecidedBy(fmt.Errorf("waiting for another form of payment %v: %w", p.ID, err))
	}
	defer leave()
	p, err = h.paymentBehind(ctx, v)
	if err != nil {
		return err
	}
	if !stateOf(p, h.now()).payable() {
		return nil
	}
	reply, err := h.Sandbox.SignalPayment(ctx, p, outcome, reference)
	switch {
	case err != nil:
		return undecidedBy(fmt.Errorf("signalling payment %v: %w", p.ID, err))
	case reply.Result == domain.SignalParked:
		return fmt.Errorf("the signal of payment %v was parked: %s", p.ID, reply.Reason)
	case reply.Result != domain.SignalApplied && reply.Result != domain.SignalUnchanged:
		h.log(v.request).Warn().Stringer("payment", p.ID).Str("result", reply.Result).Str("reason", reply.Reason).
			Msg("an outcome chosen on the payment page did not count")
	}
	return nil
}
