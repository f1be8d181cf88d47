package checkout

import (
	"context"
	"errors"
	"fmt"
	"net/http"

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
func (h *handler) pay(v *visit) error {
	if err := h.ours(v.request); err != nil {
		return &failure{status: http.StatusForbidden, why: foreignForm, cause: err}
	}
	ctx := v.x.Context()
	p, err := h.paymentBehind(ctx, v)
	if err != nil {
		return err
	}
	form, status, err := ui.ReadForm(v.x, v.request, maxForm)
	if err != nil {
		return &failure{status: status, why: badForm, cause: err}
	}
	reference, ok := h.Links.openForm(v, ui.One(form["form"]))
	if !ok {
		return &failure{status: http.StatusForbidden, why: unknownForm}
	}
	switch h.stateOf(p) {
	case paused:
		return payingPaused()
	case orphaned, preparing: // the page says so
		return v.leave(v.here())
	}
	if _, ok := h.provider(p); ok {
		return h.handOver(v, p, ui.One(form["form"]))
	}
	if h.Sandbox == nil {
		return &failure{status: http.StatusMethodNotAllowed, why: badMethod, allow: readMethods}
	}
	choice := ui.One(form["outcome"])
	outcome, ok := outcomes()[choice]
	if !ok {
		return &failure{status: http.StatusBadRequest, why: badForm}
	}
	err = h.decide(ctx, v, p, outcome, reference)
	var f *failure
	if errors.As(err, &f) && f.status == http.StatusServiceUnavailable {
		f.form, f.outcome = ui.One(form["form"]), choice
	}
	if err != nil {
		return err
	}
	return v.leave(v.here())
}

// ours returns an error if a form is not from a page of this program. With the referrer policy of
// ui.Secure a browser names the origin of its form "null"; where it sends no Sec-Fetch-Site either,
// as on plain http to an address, only the form's token says whose it is.
func (h *handler) ours(r *http.Request) error {
	if r.Header.Get("Origin") == "null" && r.Header.Get("Sec-Fetch-Site") == "" {
		return nil
	}
	return h.origins.Check(r)
}

// decide returns nil when the payment is not open any more or once the outcome is recorded, also if
// it changed nothing: the page shows that. A failure with status 503 leaves open whether the
// outcome counted; the same form may be sent again.
func (h *handler) decide(ctx context.Context, v *visit, p domain.Payment, outcome domain.Outcome, reference string) error {
	ctx, cancel := context.WithTimeout(ctx, signalWait)
	defer cancel()
	undecidedBy := func(cause error) error {
		return &failure{status: http.StatusServiceUnavailable, why: undecided, retryAfter: 5, cause: cause}
	}
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return undecidedBy(fmt.Errorf("waiting for another form before that of payment %v: %w", p.ID, ctx.Err()))
	}
	p, err := h.paymentBehind(ctx, v)
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
		v.x.Log().Warn().Stringer("payment", p.ID).Str("result", reply.Result).Str("reason", reply.Reason).
			Msg("an outcome chosen on the payment page did not count")
	}
	return nil
}
