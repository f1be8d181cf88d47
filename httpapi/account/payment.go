package account

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// paymentFacts is a payment with what only its merchant may know of it.
type paymentFacts struct{ wire.PaymentFacts }

func (v *visit) paymentFacts() (paymentFacts, error) {
	facts, err := v.API.PaymentFacts(v.Ctx(), v.Caller, v.Vars["id"])
	return paymentFacts{facts}, err
}

// Open reports whether the customer can still pay.
func (f paymentFacts) Open() bool { return !f.Payment.Status.Final() }

// Pending is the refund that the provider has not answered yet, nil for none.
func (f paymentFacts) Pending() *wire.RefundRow { return f.refundThat(domain.RefundPending) }

// Succeeded is the refund whose money the customer has, nil for none.
func (f paymentFacts) Succeeded() *wire.RefundRow { return f.refundThat(domain.RefundSucceeded) }

func (f paymentFacts) refundThat(is domain.RefundStatus) *wire.RefundRow {
	for i, r := range f.Refunds {
		if r.Status == is && !r.Returned {
			return &f.Refunds[i]
		}
	}
	return nil
}

// Refundable reports whether a refund could be made.
func (f paymentFacts) Refundable() bool {
	return f.Payment.Status == domain.Paid && f.Pending() == nil && f.Succeeded() == nil && !f.Disputed()
}

// Disputed reports whether a dispute holds the money, or has taken it.
func (f paymentFacts) Disputed() bool {
	return slices.ContainsFunc(f.Disputes, func(d domain.Dispute) bool { return d.Status != domain.DisputeWon })
}

// event is what of a stored event is shown.
type event struct {
	ID      domain.ID      `json:"id"`
	Type    string         `json:"type"`
	Payment domain.ID      `json:"stream"`
	At      domain.Instant `json:"at"`
	Data    struct {
		Route  string `json:"route"`
		Reason string `json:"reason"`

		Unrecorded int `json:"unrecorded"`

		Attempt   int             `json:"attempt"`
		Reference string          `json:"reference"`
		Amount    domain.Amount   `json:"amount"`
		Currency  domain.Currency `json:"currency"`

		RefundID string         `json:"refund_id"`
		ReturnID string         `json:"return_id"`
		Expires  domain.Instant `json:"expires_at"`
		Signal   *struct {
			Route     string          `json:"route"`
			Reference string          `json:"reference"`
			Amount    domain.Amount   `json:"amount"`
			Currency  domain.Currency `json:"currency"`
		} `json:"signal"`
	} `json:"data"`
}

// moment is an event with its place in the log.
type moment struct {
	event
	Position uint64
}

func momentOf(l wire.EventLine) (moment, error) {
	m := moment{Position: l.Position}
	if err := json.Unmarshal(l.Event, &m.event); err != nil {
		return m, fmt.Errorf("the event at position %d: %w", l.Position, err)
	}
	return m, nil
}

// paymentPage is what payment.html is filled with.
type paymentPage struct {
	pageData
	paymentFacts
	Moments    []moment
	More       bool // there are further events
	Payload    string
	Compact    string
	Deliveries []domain.DeliveryObject
	MoreSent   bool // there are further deliveries
}

// settling is a form that decides in the provider's place.
type settling struct {
	pageData
	Action, Refund, Outcome, Text string
}

// Settling is the form for an outcome, with the text of a message id on its button.
func (p paymentPage) Settling(refund, outcome, word string) settling {
	return settling{p.pageData, p.Root + "payments/" + p.Payment.ID.String() + "/settle", refund, outcome, p.T(word)}
}

// EndpointName names an endpoint for its merchant: the note, else the address; the id if it was
// removed.
func (d pageData) EndpointName(id string) string {
	switch e, ok := d.Who.Project.Endpoint(id); {
	case !ok:
		return id
	case d.Text(e.Description) != "":
		return *e.Description
	default:
		return e.URL
	}
}

// HasEndpoint reports whether an endpoint was not removed, so that it has a page.
func (d pageData) HasEndpoint(id string) bool {
	_, ok := d.Who.Project.Endpoint(id)
	return ok
}

func (v *visit) showPayment() error {
	facts, err := v.paymentFacts()
	if err != nil {
		return err
	}
	events, err := v.API.PaymentEvents(v.Ctx(), v.Caller, v.Vars["id"], nil)
	if err != nil {
		return err
	}
	title := v.Locale.T("payment.title")
	if facts.Payment.Description != nil && *facts.Payment.Description != "" {
		title = *facts.Payment.Description
	}
	page := paymentPage{
		pageData: v.pageData(title), paymentFacts: facts, More: events.NextCursor != nil, Compact: string(facts.Payment.Payload),
		Payload: pretty(string(facts.Payment.Payload)),
	}
	for _, e := range events.Data {
		m, err := momentOf(e)
		if err != nil {
			return err
		}
		page.Moments = append(page.Moments, m)
	}
	sent, err := v.Webhooks.PaymentDeliveries(v.Ctx(), v.Caller, v.Vars["id"], url.Values{"limit": {"50"}})
	if err != nil {
		return err
	}
	page.Deliveries, page.MoreSent = sent.Data, sent.NextCursor != nil
	return v.Render(http.StatusOK, "payment.html", page)
}

// pretty is a JSON object with a member a line; escapes, digits and the order
// of members stay as they were sent.
func pretty(compact string) string {
	v := jsontext.Value(compact)
	if err := v.Indent(jsontext.WithIndent("  "), jsontext.PreserveRawStrings(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return compact
	}
	return string(v)
}

// proof answers the payment's receipt.
func (v *visit) proof() error {
	text, err := v.API.Receipt(v.Ctx(), v.Caller, v.Vars["id"])
	if err == nil {
		err = v.SaveSession()
	}
	return merchant.ReplyReceipt(v.X, v.Vars["id"], text, err)
}

// refundPage is what refund.html is filled with.
type refundPage struct {
	pageData
	paymentFacts
}

// confirmRefund asks before money is returned.
func (v *visit) confirmRefund() error {
	facts, err := v.paymentFacts()
	if err != nil {
		return err
	}
	return v.Render(http.StatusOK, "refund.html", refundPage{v.pageData(v.Locale.T("refund.title")), facts})
}

// refund makes the refund. One that cannot be is said on the payment's page.
func (v *visit) refund() error {
	_, err := v.API.CreateRefund(v.Ctx(), v.Caller, merchant.RefundRequest{PaymentID: v.Vars["id"]}, v.IdempotencyKey())
	return v.toPayment(err, "refund.made")
}

// settle plays the provider, in sandbox: it decides the refund that the form
// names, else the payment.
func (v *visit) settle() (err error) {
	outcome := domain.Outcome(v.Value("outcome"))
	if refund := v.Value("refund"); refund != "" {
		_, _, err = v.API.SettleRefund(v.Ctx(), v.Caller, refund, outcome)
	} else {
		_, err = v.API.SettlePayment(v.Ctx(), v.Caller, v.Vars["id"], outcome)
	}
	return v.toPayment(err, "payment.settled")
}

// toPayment leads to the payment's page, which says what became of a form.
func (v *visit) toPayment(err error, word string) error {
	path := "payments/" + v.Vars["id"]
	if p := v.Refusal(err); p != nil && p.Status == http.StatusConflict {
		v.PutNotice("warn", ProblemText(v.Locale, *p))
		return v.Leave(path)
	}
	if err != nil {
		return err
	}
	return v.Done(path, word)
}
