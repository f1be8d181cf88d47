package account

import (
	"net/url"

	"payledger/domain"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// refundsPage is what refunds.html is filled with.
type refundsPage struct {
	pageData
	pager

	Status, Payment string // the filters
	Statuses        []domain.RefundStatus
	Filtered        bool
	Refunds         []wire.RefundRow
	Of              subjects
	CSV             string
}

func (v *visit) refundFilters() url.Values { return v.Filters("status", "payment_id") }

func (v *visit) listRefunds() error {
	q := v.refundFilters()
	p := refundsPage{
		pageData: v.pageData(v.Locale.T("refunds.title")), Status: q.Get("status"), Payment: q.Get("payment_id"),
		Statuses: domain.RefundStatuses(), Filtered: len(q) > 0,
	}
	p.CSV = p.Root + "refunds.csv?" + q.Encode()
	var err error
	p.Refunds, p.pager, err = listOf(v, "refunds", merchant.PageOf(v.API.Refunds), q, q)
	if err := p.BadFilter(err); err != nil {
		return err
	}
	if p.Of, err = v.subjects(p.pageData, each(p.Refunds, func(r wire.RefundRow) *domain.ID { return &r.PaymentID })); err != nil {
		return err
	}
	return v.Render(p.Answer(), "refunds.html", p)
}

func (v *visit) refundsCSV() error {
	return replyCSV(v, v.API.Refunds, v.refundFilters(), "refunds.csv")
}
