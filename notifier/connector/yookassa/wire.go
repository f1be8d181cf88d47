package yookassa

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/notifier/connector"
)

// The members of metadata that name what is ours.
const (
	metaPayment = "payledger_payment" // the payment's id
	metaAttempt = "payledger_attempt" // the attempt's key
	metaProject = "payledger_project"
	metaRefund  = "payledger_refund" // the refund's id

	refundPrefix = "payledger " // and the refund's id: the description of a refund
)

type money struct {
	Value    string          `json:"value"`
	Currency domain.Currency `json:"currency"`
}

func moneyOf(a domain.Amount, c domain.Currency) money { return money{Value: a.String(), Currency: c} }

type confirmation struct {
	Type   string `json:"type"`
	Locale string `json:"locale,omitempty"`
	Return string `json:"return_url,omitempty"`
	URL    string `json:"confirmation_url,omitempty"`  // of type redirect
	Data   string `json:"confirmation_data,omitempty"` // of type qr
}

// The types of a confirmation.
const (
	byRedirect = "redirect"
	byQR       = "qr"
)

type paymentRequest struct {
	Amount        money             `json:"amount"`
	Capture       bool              `json:"capture"`
	PaymentMethod *paymentMethod    `json:"payment_method_data,omitempty"`
	Confirmation  confirmation      `json:"confirmation"`
	Description   string            `json:"description,omitempty"`
	Metadata      map[string]string `json:"metadata"`
	Receipt       jsontext.Value    `json:"receipt,omitempty"`
}

type paymentMethod struct {
	Type string `json:"type"`
}

// The statuses of payments and refunds.
const (
	pending   = "pending"
	held      = "waiting_for_capture" // payments only
	succeeded = "succeeded"
	canceled  = "canceled"
)

type cancellation struct {
	Reason string `json:"reason"`
}

type payment struct {
	ID           string         `json:"id"`
	Status       string         `json:"status"`
	Amount       money          `json:"amount"`
	Refunded     *money         `json:"refunded_amount"`
	Confirmation *confirmation  `json:"confirmation"`
	Cancellation cancellation   `json:"cancellation_details"`
	Metadata     map[string]any `json:"metadata"`
	Test         bool           `json:"test"`
}

// state is what a payment's object says. A payment that is held is still open.
func (p payment) state() (connector.State, error) {
	st := connector.State{Reference: p.ID, Phase: connector.Open}
	switch p.Status {
	case pending:
		st.HandOff = p.Confirmation.handOff()
	case held:
	case succeeded:
		amount, err := domain.ParseAmount(p.Amount.Value)
		if err != nil {
			return connector.State{}, fmt.Errorf("the amount of payment %s at YooKassa cannot be read", p.ID)
		}
		st.Phase, st.Amount, st.Currency = connector.Paid, amount, p.Amount.Currency
	case canceled:
		st.Phase, st.Reason = connector.Closed, connector.ReasonCode(p.Cancellation.Reason)
	default:
		return connector.State{}, fmt.Errorf("payment %s has an unknown status at YooKassa", p.ID)
	}
	return st, nil
}

// handOff is where the customer goes; nil where YooKassa names no place.
func (c *confirmation) handOff() *domain.HandOff {
	switch {
	case c == nil:
	case c.Type == byRedirect && c.URL != "":
		return &domain.HandOff{Kind: domain.HandOffRedirect, URL: c.URL}
	case c.Type == byQR && c.Data != "":
		return &domain.HandOff{Kind: domain.HandOffQR, URL: c.Data}
	}
	return nil
}

type refundRequest struct {
	PaymentID   string            `json:"payment_id"`
	Amount      money             `json:"amount"`
	Description string            `json:"description"`
	Metadata    map[string]string `json:"metadata"`
	Receipt     jsontext.Value    `json:"receipt,omitempty"`
}

type refund struct {
	ID           string         `json:"id"`
	PaymentID    string         `json:"payment_id"`
	Status       string         `json:"status"`
	Amount       money          `json:"amount"`
	Description  string         `json:"description"`
	Metadata     map[string]any `json:"metadata"`
	Cancellation cancellation   `json:"cancellation_details"`
}

type refundPage struct {
	Items []refund `json:"items"`
	Next  string   `json:"next_cursor"`
}

// ours is the id that we gave the refund; zero: it is not ours.
func (r refund) ours() domain.ID {
	if id := idIn(r.Metadata, metaRefund); id != (domain.ID{}) {
		return id
	}
	text, _ := strings.CutPrefix(r.Description, refundPrefix)
	id, _ := domain.ParseID(text)
	return id
}

func (r refund) state() (connector.RefundState, error) {
	amount, err := domain.ParseAmount(r.Amount.Value)
	if err != nil || !validID(r.ID) {
		return connector.RefundState{}, fmt.Errorf("refund %s at YooKassa cannot be read", plain(r.ID))
	}
	st := connector.RefundState{
		ID: r.ours(), Reference: r.ID, Phase: connector.Open,
		Amount: amount, Currency: r.Amount.Currency,
	}
	switch r.Status {
	case pending:
	case succeeded:
		st.Phase = connector.Paid
	case canceled:
		st.Phase, st.Reason = connector.Closed, connector.ReasonCode(r.Cancellation.Reason)
	default:
		return connector.RefundState{}, fmt.Errorf("refund %s has an unknown status at YooKassa", r.ID)
	}
	return st, nil
}

// idIn is an id of ours in metadata; zero: there is none.
func idIn(metadata map[string]any, member string) domain.ID {
	text, _ := metadata[member].(string)
	id, _ := domain.ParseID(text)
	return id
}

// validID reports whether a string has the form of YooKassa's ids, and so can be part of a path.
func validID(id string) bool {
	return id != "" && len(id) <= domain.MaxReference && plain(id) == id && !strings.ContainsAny(id, ".[]")
}
