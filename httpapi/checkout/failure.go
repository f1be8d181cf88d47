package checkout

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/peer"
	"payledger/httpapi/ui"
)

// reason names what a page of failure says.
type reason string

const (
	noPayment   reason = "no_payment"
	badMethod   reason = "bad_method"
	foreignForm reason = "foreign_form"
	unknownForm reason = "unknown_form"
	badForm     reason = "bad_form"
	undecided   reason = "undecided"

	providerDown    reason = "provider_down"
	tooManyAttempts reason = "too_many_attempts"
	routePaused     reason = "paused"

	tooMany     reason = "too_many"
	unavailable reason = "unavailable"
	broken      reason = "broken"
)

// failure is a request that is answered with a page of failure.
type failure struct {
	status     int
	why        reason
	cause      error  // for the log, and what the page's script is answered; may be nil
	allow      string // 405: the methods that work
	retryAfter int    // 429 and 503: seconds
	ours       bool   // a limit of the program's own, no failure: not logged

	// form and outcome, when set, are offered to be sent again unchanged.
	form, outcome string
}

func (f *failure) Error() string {
	if f.cause != nil {
		return string(f.why) + ": " + f.cause.Error()
	}
	return string(f.why)
}

func (f *failure) Unwrap() error { return f.cause }

// failureOf maps an error to the message for the customer.
func failureOf(err error) *failure {
	var f *failure
	var fatal *eventstore.FatalError
	var leaderless *peer.UnavailableError
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, eventstore.ErrUnconfirmed), errors.As(err, &leaderless) && leaderless.Unknown:
		return &failure{status: http.StatusServiceUnavailable, why: undecided, retryAfter: 2, cause: err}
	case leaderless != nil, eventstore.Passing(err), errors.Is(err, eventstore.ErrClosed),
		errors.As(err, &fatal), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &failure{status: http.StatusServiceUnavailable, why: unavailable, retryAfter: 5, cause: err}
	}
	return &failure{status: http.StatusInternalServerError, why: broken, cause: err}
}

// fail answers a page in the look of the others that says what to do. An error that is the program's
// fault becomes part of the request's record. Tokens are never logged: they are the links.
func (h *handler) fail(v *visit, err error) error {
	f := failureOf(err)
	if f.status >= http.StatusInternalServerError && !f.ours {
		v.x.Failed(err)
	}
	if f.allow != "" {
		v.x.Header().Set("Allow", f.allow)
	}
	if f.retryAfter > 0 {
		v.x.Header().Set("Retry-After", strconv.Itoa(f.retryAfter))
	}
	page := h.view(v, v.locale.T("failure."+string(f.why)))
	page.Plain = true
	if f.why == tooMany {
		page.Note = v.locale.Plural("advice.too_many", f.retryAfter)
	} else {
		page.Note = v.locale.T("advice." + string(f.why))
	}
	page.Form, page.Outcome = f.form, f.outcome
	if f.why == providerDown {
		allowHandOff(v.x.Header())
	}
	if f.why == tooMany || v.id != (domain.ID{}) && f.status != http.StatusNotFound {
		page.Here = v.here()
	}
	return ui.Render(v.x, f.status, h.templates, "failure.html", page)
}
