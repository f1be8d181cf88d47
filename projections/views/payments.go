package views

import (
	"context"
	"encoding/binary"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/boltfile"
	"payledger/projections/table"
)

// PaymentRow is a payment with the position of its payment.created.
type PaymentRow struct {
	Payment  domain.Payment
	Position eventstore.Position
}

// paymentsView holds every payment under its id's 16 bytes. Unlike the views of
// payments it is changed with every event, so that a read of one payment needs
// no other view.
type paymentsView struct{ *table.Table[*PaymentRow] }

// NewPayments adds the table of payments to a DB.
func NewPayments(db *table.DB) *table.Table[*PaymentRow] {
	return table.New(db, "payments", appendRow, parseRow)
}

func newPaymentsView(db *table.DB, cached int) *paymentsView {
	v := &paymentsView{NewPayments(db)}
	v.Cache(cached)
	return v
}

func (v *paymentsView) put(before, after *PaymentRow) {
	if before == nil {
		v.Insert(idKey(after.Payment.ID), after)
	} else {
		v.Replace(idKey(after.Payment.ID), after)
	}
}

// Payment finds a payment of any project: callers compare its Project. Its
// slices must not be modified. It waits for events of this payment alone.
func (v *Views) Payment(ctx context.Context, id domain.ID) (domain.Payment, bool, error) {
	key := idKey(id)
	slot := v.payments.Slot(key) // before asking the log, so that no older row gets into the cache
	last, err := v.log.Fresh(ctx, eventstore.Filter{ID: id.String()})
	if err != nil {
		return domain.Payment{}, false, err
	}
	row, ok, err := v.payments.GetUnchanged(key, slot, uint64(last))
	if err != nil || !ok {
		return domain.Payment{}, false, err
	}
	return row.Payment, true, nil
}

func appendJSON[T any](b []byte, v *T) ([]byte, error) {
	// PreserveRawStrings keeps a merchant's payload byte for byte.
	body, err := json.Marshal(v, jsontext.PreserveRawStrings(true))
	return append(b, body...), err
}

func parseJSON[T any](b []byte) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(b, v, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	return v, nil
}

// The form of a payment's row: its members in the order of the structs. An id is
// its 16 bytes, a number a varint. A text or list follows its length as a varint,
// and a member that may be absent follows a byte 0 or 1.

func appendRow(b []byte, row *PaymentRow) ([]byte, error) {
	p := &row.Payment
	b = boltfile.AppendText(b, p.Project)
	b = append(b, p.ID[:]...)
	b = boltfile.AppendText(b, p.Status)
	b = binary.AppendVarint(b, int64(p.Amount))
	b = boltfile.AppendText(b, p.Currency)
	b = boltfile.AppendFlag(b, p.Description != nil)
	if p.Description != nil {
		b = boltfile.AppendText(b, *p.Description)
	}
	b = boltfile.AppendText(b, p.Payload)
	b = binary.AppendVarint(b, int64(p.CreatedAt))
	b = binary.AppendVarint(b, int64(p.ExpiresAt))
	b = boltfile.AppendText(b, p.Link.Base)
	b = binary.AppendVarint(b, int64(p.Link.KeyVersion))
	b = binary.AppendVarint(b, int64(p.Link.Render))
	b = boltfile.AppendText(b, p.Route)
	b = boltfile.AppendText(b, p.FailureReason)
	b = boltfile.AppendText(b, p.PaidReference)
	b = binary.AppendUvarint(b, uint64(len(p.Refunds)))
	for i := range p.Refunds {
		b = appendRefund(b, &p.Refunds[i])
	}
	b = binary.AppendUvarint(b, uint64(len(p.Signals)))
	for i := range p.Signals {
		s := &p.Signals[i]
		b = boltfile.AppendText(b, s.Route)
		b = boltfile.AppendText(b, s.Outcome)
		b = boltfile.AppendText(b, s.Reference)
		b = boltfile.AppendFlag(b, s.RefundID != nil)
		if s.RefundID != nil {
			b = append(b, s.RefundID[:]...)
		}
		b = binary.AppendVarint(b, int64(s.Amount))
		b = boltfile.AppendText(b, s.Currency)
		b = binary.AppendVarint(b, int64(s.StartedAt))
	}
	b = binary.AppendUvarint(b, p.Refused)
	b = binary.AppendUvarint(b, p.LateFunds)
	b = appendCollection(b, p)
	return binary.AppendUvarint(b, uint64(row.Position)), nil
}

func parseRow(b []byte) (*PaymentRow, error) {
	d := boltfile.Decode(b)
	row := new(PaymentRow)
	p := &row.Payment
	p.Project = string(d.Text())
	p.ID = d.ID()
	p.Status = domain.PaymentStatus(d.Text())
	p.Amount = domain.Amount(d.Int())
	p.Currency = currencyOf(d.Text())
	if d.Flag() {
		d := string(d.Text())
		p.Description = &d
	}
	p.Payload = append(p.Payload, d.Text()...)
	p.CreatedAt = domain.Instant(d.Int())
	p.ExpiresAt = domain.Instant(d.Int())
	p.Link = domain.Link{Base: string(d.Text()), KeyVersion: int(d.Int()), Render: int(d.Int())}
	p.Route = string(d.Text())
	p.FailureReason = string(d.Text())
	p.PaidReference = string(d.Text())
	for range d.Uint() {
		p.Refunds = append(p.Refunds, parseRefund(&d))
	}
	for range d.Uint() {
		s := domain.Signal{Route: string(d.Text()), Outcome: domain.Outcome(d.Text()), Reference: string(d.Text())}
		if d.Flag() {
			id := domain.ID(d.ID())
			s.RefundID = &id
		}
		s.Amount, s.Currency, s.StartedAt = domain.Amount(d.Int()), currencyOf(d.Text()), domain.Instant(d.Int())
		p.Signals = append(p.Signals, s)
	}
	p.Refused, p.LateFunds = d.Uint(), d.Uint()
	parseCollection(&d, p)
	row.Position = eventstore.Position(d.Uint())
	return row, d.End()
}
