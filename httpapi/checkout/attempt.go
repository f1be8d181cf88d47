package checkout

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"payledger/domain"
)

// Obstacle is why customers cannot begin to pay although the payment is open.
type Obstacle string

// The obstacles; "" is none.
const (
	RoutePaused Obstacle = "paused" // the operator has paused the route, or each that would take the payment
	RouteGone   Obstacle = "gone"   // the route has no connector any more, so its provider is not polled
)

// Attempts hand customers over to the providers of real routes.
type Attempts interface {
	// Provider is the name of a route's provider, "" where it has none that customers know. ok is
	// false for a route whose customers cannot be redirected.
	Provider(route string) (name string, ok bool)

	// Obstacle is why the payment cannot be paid now. It may have no route yet.
	Obstacle(domain.Payment) Obstacle

	// Begin continues the payment's open attempt, or begins one, and returns the hand-off: the same
	// for the same attempt, nil when the customer has only to wait. An error other than a
	// *domain.AttemptError means that the provider cannot be reached, and that the same may be tried
	// again.
	Begin(ctx context.Context, payment domain.ID, language, merchant string) (*domain.HandOff, error)

	// Shown is the hand-off of the open attempt if it is cached; nil if not. It never calls the
	// provider.
	Shown(payment domain.ID, attempt int) *domain.HandOff

	// Wake has the provider asked soon what became of the attempt.
	Wake(payment domain.ID)
}

// returnedQuery marks the address that a customer comes back to from the provider.
// Its value says nothing that is believed.
const returnedQuery = "returned"

// ReturnURL is where the provider redirects the customer back to: the payment link, with a mark
// that has the provider polled at once. Without the link's master key it is only the public URL.
func (l *Links) ReturnURL(p domain.Payment) string {
	if _, ok := l.keys[p.Link.KeyVersion]; !ok {
		return p.Link.Base
	}
	return l.URL(p.Link.Base, p.Link.KeyVersion, p.ID) + "?" + returnedQuery + "=1"
}

// asLeft shows a customer who comes back from the provider the language that the
// page had, which the address they come back to does not name.
func (h *handler) asLeft(v *visit, p domain.Payment) {
	if v.locale.Chosen || len(p.Attempts) == 0 {
		return
	}
	had := p.Attempts[len(p.Attempts)-1].Language
	for _, l := range h.site.Languages() {
		if l.Lang == had && had != v.locale.Lang {
			chosen := *l
			chosen.Chosen = true
			v.locale = &chosen
		}
	}
}

// provider is the provider that the payment's customer can be redirected to.
func (h *handler) provider(p domain.Payment) (name string, ok bool) {
	if h.Attempts == nil || p.Route == "" {
		return "", false
	}
	return h.Attempts.Provider(p.Route)
}

// handOver sends the customer on to the provider, or back to the page, which shows
// the QR code, or what became of the attempt.
func (h *handler) handOver(v *visit, p domain.Payment, form string) error {
	to := v.here()
	if h.stateOf(p).payable() {
		project, err := h.projectOf(v.x.Context(), p)
		if err != nil {
			return err
		}
		hand, err := h.Attempts.Begin(v.x.Context(), p.ID, v.locale.Lang, project.Name)
		var refused *domain.AttemptError
		switch {
		case errors.As(err, &refused) && refused.Reason == domain.AttemptTooMany:
			return &failure{status: http.StatusConflict, why: tooManyAttempts}
		case errors.As(err, &refused) && refused.Reason == domain.AttemptPaused:
			return payingPaused()
		case errors.As(err, &refused):
		case err != nil:
			return &failure{
				status: http.StatusServiceUnavailable, why: providerDown, retryAfter: 5, form: form,
				cause: fmt.Errorf("handing the customer of payment %v over: %w", p.ID, err),
			}
		case hand != nil && hand.Kind == domain.HandOffRedirect:
			to = hand.URL
		}
	}
	return v.leave(to)
}

// payingPaused answers a customer who pressed Pay before the page could say that
// paying is paused.
func payingPaused() *failure {
	return &failure{status: http.StatusServiceUnavailable, why: routePaused, retryAfter: 30, ours: true}
}

// allowHandOff lets the form of the page lead to a provider: browsers follow a
// redirect after a form only where form-action allows it.
func allowHandOff(header http.Header) {
	const policy = "Content-Security-Policy"
	header.Set(policy, strings.Replace(header.Get(policy), "form-action 'self'", "form-action 'self' https:", 1))
}
