package account

import (
	"net/http"
	"strings"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// newPaymentPage is what new.html is filled with.
type newPaymentPage struct {
	pageData
	Currencies []domain.Currency
	In         struct{ Amount, Currency, Description, Payload string } // what was entered
}

// chosen is the currency of the form.
func (p newPaymentPage) chosen() domain.Currency {
	if p.In.Currency == "" && len(p.Currencies) > 0 {
		return p.Currencies[0]
	}
	return domain.Currency(p.In.Currency)
}

func (v *visit) newPaymentPage() newPaymentPage {
	return newPaymentPage{pageData: v.pageData(v.Locale.T("new.title")), Currencies: v.Caller.Project.Settings.Currencies}
}

func (v *visit) newPayment() error {
	return v.Render(http.StatusOK, "new.html", v.newPaymentPage())
}

func (v *visit) createPayment() error {
	page := v.newPaymentPage()
	in := &page.In
	in.Amount, in.Currency, in.Description, in.Payload = v.Value("amount"), v.Value("currency"), v.Value("description"), v.Value("payload")
	wrong := func(field, text string) error {
		page.WrongField(field, text)
		return v.Render(http.StatusUnprocessableEntity, "new.html", page)
	}
	if strings.TrimSpace(in.Amount) == "" {
		return wrong("amount", v.Locale.T("wrong.required"))
	}
	amount, named := v.Locale.ReadAmount(in.Amount, page.Currencies)
	if named != "" && named != page.chosen() {
		return wrong("amount", v.Locale.T("wrong.amount_currency", "Currency", string(page.chosen())))
	}
	req := merchant.PaymentRequest{Amount: &amount, Currency: entered(string(page.chosen())), Description: entered(in.Description)}
	if text := strings.TrimSpace(in.Payload); text != "" {
		if _, err := edge.DecodeObject([]byte(text)); err != nil {
			return wrong("payload", v.Locale.T("new.payload_json"))
		}
		req.Payload = wire.Compact([]byte(text))
	}
	made, err := v.API.CreatePayment(v.Ctx(), v.Caller, req, v.IdempotencyKey())
	if p := v.Refusal(err); p != nil && p.Status == http.StatusUnprocessableEntity {
		page.Refuse(p)
		return v.Render(p.Status, "new.html", page)
	}
	if err != nil {
		return err
	}
	return v.Done("payments/"+made.Object.ID.String(), "new.made")
}

// entered is the text of a field, nil when nothing was entered.
func entered(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
