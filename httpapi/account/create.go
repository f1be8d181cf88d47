package account

import (
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
)

// newPaymentPage is what new.html is filled with.
type newPaymentPage struct {
	desk
	Currencies []domain.Currency
	In         struct{ Amount, Currency, Description, Payload string } // what was entered
}

func (v *visit) newPaymentPage() newPaymentPage {
	return newPaymentPage{desk: v.desk(v.locale.T("new.title")), Currencies: v.who.Settings.Currencies}
}

func (v *visit) newPayment() error {
	return v.render(http.StatusOK, "new.html", v.newPaymentPage())
}

// paymentBody is what a payment is created from. Members that are not there
// have their default.
type paymentBody struct {
	Amount      string         `json:"amount"`
	Currency    string         `json:"currency,omitzero"`
	Description string         `json:"description,omitzero"`
	Payload     jsontext.Value `json:"payload,omitzero"`
}

func (v *visit) createPayment() error {
	page := v.newPaymentPage()
	in := &page.In
	in.Amount, in.Currency, in.Description, in.Payload = v.value("amount"), v.value("currency"), v.value("description"), v.value("payload")
	body := paymentBody{Amount: amountText(in.Amount), Currency: in.Currency, Description: in.Description}
	if text := strings.TrimSpace(in.Payload); text != "" {
		body.Payload = jsontext.Value(text)
		if !body.Payload.IsValid() || body.Payload.Kind() != '{' {
			page.Fields = map[string]string{"payload": v.locale.T("new.payload_json")}
			page.Alert = &notice{"bad", v.locale.T("account.check_fields")}
			return v.render(http.StatusUnprocessableEntity, "new.html", page)
		}
	}
	if body.Amount == "" {
		page.Fields = map[string]string{"amount": v.locale.T("wrong.required")}
		page.Alert = &notice{"bad", v.locale.T("account.check_fields")}
		return v.render(http.StatusUnprocessableEntity, "new.html", page)
	}
	made, err := post[domain.PaymentObject](v, "/v1/payments", body)
	if p, ok := errors.AsType[*Problem](err); ok && p.Status == http.StatusUnprocessableEntity {
		page.refuse(p)
		return v.render(p.Status, "new.html", page)
	}
	if err != nil {
		return err
	}
	return v.done("payments/"+made.ID.String(), "new.made")
}
