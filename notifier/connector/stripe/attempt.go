package stripe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	api "github.com/stripe/stripe-go/v85"

	"payledger/domain"
	"payledger/notifier/connector"
)

// The names of our metadata.
const (
	metaPayment = "payledger_payment"
	metaProject = "payledger_project"
	metaAttempt = "payledger_attempt"
	metaRefund  = "payledger_refund"
)

// How long a session lives from the attempt's begin: until the payment's deadline
// within these bounds. Stripe counts from the moment it hears of the session, by
// its own clock, and takes 30 minutes to 24 hours: the least leaves time for calls
// that have to be repeated, the most for clocks that differ.
const (
	minLife = 45 * time.Minute
	maxLife = 23 * time.Hour
)

// wholeAriary is a currency of two minor digits that Stripe counts without them.
// https://docs.stripe.com/currencies#zero-decimal
const wholeAriary = "MGA"

// Begin creates a session. The parameters come only from the attempt, so that a repeated call has
// the same ones.
func (c *account) Begin(ctx context.Context, a connector.Attempt) (connector.State, error) {
	if a.Currency == wholeAriary {
		return connector.State{}, &connector.RefusedError{Reason: "currency_not_supported", Detail: "Stripe takes no hundredths of MGA"}
	}
	params := sessionParams(a)
	params.SetIdempotencyKey(a.Key)
	noted, answer := noting(ctx)
	s, err := c.client.V1CheckoutSessions.Create(noted, params)
	if err := answer.failure("creating a Checkout Session", err); err != nil {
		return connector.State{}, beginError(err)
	}
	if answer.replayed { // as it was then
		a.Reference = s.ID
		return c.Read(ctx, a)
	}
	return state(s, a)
}

func sessionParams(a connector.Attempt) *api.CheckoutSessionCreateParams {
	metadata := map[string]string{metaPayment: a.Payment.String(), metaProject: a.Project, metaAttempt: a.Key}
	life := min(max(a.ExpiresAt.Time().Sub(a.BegunAt.Time()), minLife), maxLife)
	return &api.CheckoutSessionCreateParams{
		Mode:               api.String(api.CheckoutSessionModePayment),
		PaymentMethodTypes: api.StringSlice([]string{"card"}),
		// Else Stripe lets the customer pay in another currency.
		AdaptivePricing:   &api.CheckoutSessionCreateAdaptivePricingParams{Enabled: new(false)},
		SubmitType:        api.String(api.CheckoutSessionSubmitTypePay),
		Locale:            api.String(a.Language),
		ClientReferenceID: api.String(a.Key),
		Metadata:          metadata,
		PaymentIntentData: &api.CheckoutSessionCreatePaymentIntentDataParams{Metadata: metadata},
		ExpiresAt:         new(a.BegunAt.Add(life).Time().Unix()),
		SuccessURL:        api.String(a.ReturnURL),
		CancelURL:         api.String(a.ReturnURL),
		LineItems: []*api.CheckoutSessionCreateLineItemParams{{
			Quantity: new(int64(1)),
			PriceData: &api.CheckoutSessionCreateLineItemPriceDataParams{
				Currency:    api.String(strings.ToLower(string(a.Currency))),
				UnitAmount:  new(int64(a.Amount)),
				ProductData: &api.CheckoutSessionCreateLineItemPriceDataProductDataParams{Name: api.String(a.Merchant)},
			},
		}},
	}
}

// beginError says what an error means for the attempt's key.
//
// A key that was used with other parameters, as another name of the merchant, may
// have made a session, and so may one whose session would end too soon now. The
// customer has seen neither: who has is never begun again, but read.
func beginError(err error) error {
	e, ok := errors.AsType[*apiError](err)
	switch {
	case !ok:
		return err
	case e.spent(), e.refused() && e.answer.Param == "expires_at":
		return &connector.SpentKeyError{Err: err}
	case e.refused():
		return &connector.RefusedError{Reason: e.reason(), Detail: e.Error()}
	}
	return err
}

// Read retrieves the session.
func (c *account) Read(ctx context.Context, a connector.Attempt) (connector.State, error) {
	_, st, err := c.session(ctx, a)
	return st, err
}

func (c *account) session(ctx context.Context, a connector.Attempt) (*api.CheckoutSession, connector.State, error) {
	if !isSession(a.Reference) {
		return nil, connector.State{}, connector.ErrNotFound
	}
	noted, answer := noting(ctx)
	s, err := c.client.V1CheckoutSessions.Retrieve(noted, a.Reference, nil)
	if err := answer.failure("retrieving a Checkout Session", err); err != nil {
		return nil, connector.State{}, err
	}
	st, err := state(s, a)
	return s, st, err
}

// Cancel expires the session, if it is open.
func (c *account) Cancel(ctx context.Context, a connector.Attempt) (connector.State, error) {
	if !isSession(a.Reference) {
		return connector.State{}, connector.ErrNotFound
	}
	noted, answer := noting(ctx)
	s, err := c.client.V1CheckoutSessions.Expire(noted, a.Reference, nil)
	err = answer.failure("expiring a Checkout Session", err)
	if e, ok := errors.AsType[*apiError](err); ok && e.refused() {
		return c.Read(ctx, a) // it is not open
	}
	if err != nil {
		return connector.State{}, err
	}
	return state(s, a)
}

// isSession: nothing else belongs into a path.
func isSession(reference string) bool {
	id, ok := strings.CutPrefix(reference, "cs_")
	return ok && id != "" && len(reference) <= domain.MaxReference &&
		strings.Trim(id, "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// state is what a session means for its attempt.
func state(s *api.CheckoutSession, a connector.Attempt) (connector.State, error) {
	if !isSession(s.ID) || s.Metadata[metaPayment] != a.Payment.String() {
		return connector.State{}, errors.New("Stripe answers with a Checkout Session that is not the payment's")
	}
	st := connector.State{Reference: s.ID, Phase: connector.Open}
	switch {
	case s.PaymentStatus == api.CheckoutSessionPaymentStatusPaid:
		st.Phase, st.Amount, st.Currency = connector.Paid, domain.Amount(s.AmountTotal), currency(s.Currency)
		if st.Amount <= 0 {
			return connector.State{}, fmt.Errorf("Stripe answers with a Checkout Session that is paid with %d minor units", s.AmountTotal)
		}
	case s.PaymentStatus == api.CheckoutSessionPaymentStatusNoPaymentRequired:
		st.Phase, st.Reason = connector.Closed, "no_payment_required"
	case s.Status == api.CheckoutSessionStatusExpired:
		st.Phase, st.Reason = connector.Closed, "expired"
	case s.Status == api.CheckoutSessionStatusOpen:
		st.HandOff = &domain.HandOff{Kind: domain.HandOffRedirect, URL: s.URL, ExpiresAt: time.Unix(s.ExpiresAt, 0).UTC()}
	case s.Status == api.CheckoutSessionStatusComplete: // and unpaid: Stripe is still at it
	default:
		return connector.State{}, errors.New("Stripe answers with a Checkout Session of a status that is not known")
	}
	return st, nil
}

func currency(c api.Currency) domain.Currency {
	return domain.Currency(strings.ToUpper(string(c)))
}
