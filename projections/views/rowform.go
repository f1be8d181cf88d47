package views

import (
	"encoding/binary"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/table"
)

// The form of a payment's row: its members in the order of the structs. An id is
// its 16 bytes, a number a varint. A text or list follows its length as a varint,
// and a member that may be absent follows a byte 0 or 1.

func appendRow(b []byte, row *PaymentRow) ([]byte, error) {
	p := &row.Payment
	b = table.AppendText(b, p.Project)
	b = append(b, p.ID[:]...)
	b = table.AppendText(b, p.Status)
	b = binary.AppendVarint(b, int64(p.Amount))
	b = table.AppendText(b, p.Currency)
	b = table.AppendFlag(b, p.Description != nil)
	if p.Description != nil {
		b = table.AppendText(b, *p.Description)
	}
	b = table.AppendText(b, p.Payload)
	b = binary.AppendVarint(b, int64(p.CreatedAt))
	b = binary.AppendVarint(b, int64(p.ExpiresAt))
	b = table.AppendText(b, p.Link.Base)
	b = binary.AppendVarint(b, int64(p.Link.KeyVersion))
	b = binary.AppendVarint(b, int64(p.Link.Render))
	b = table.AppendText(b, p.Route)
	b = table.AppendText(b, p.FailureReason)
	b = binary.AppendUvarint(b, uint64(len(p.Refunds)))
	for i := range p.Refunds {
		r := &p.Refunds[i]
		b = append(b, r.ID[:]...)
		b = table.AppendText(b, r.Status)
		b = binary.AppendVarint(b, int64(r.Amount))
		b = table.AppendText(b, r.Currency)
		b = binary.AppendVarint(b, int64(r.CreatedAt))
	}
	b = binary.AppendUvarint(b, uint64(len(p.Signals)))
	for i := range p.Signals {
		s := &p.Signals[i]
		b = table.AppendText(b, s.Route)
		b = table.AppendText(b, s.Outcome)
		b = table.AppendText(b, s.Reference)
		b = table.AppendFlag(b, s.RefundID != nil)
		if s.RefundID != nil {
			b = append(b, s.RefundID[:]...)
		}
		b = binary.AppendVarint(b, int64(s.Amount))
		b = table.AppendText(b, s.Currency)
		b = binary.AppendVarint(b, int64(s.StartedAt))
	}
	b = binary.AppendUvarint(b, p.Refused)
	b = binary.AppendUvarint(b, p.LateFunds)
	return binary.AppendUvarint(b, uint64(row.Position)), nil
}

func parseRow(b []byte) (*PaymentRow, error) {
	d := table.Decode(b)
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
	for range d.Uint() {
		p.Refunds = append(p.Refunds, domain.Refund{
			ID: d.ID(), Status: domain.RefundStatus(d.Text()), Amount: domain.Amount(d.Int()), Currency: currencyOf(d.Text()),
			CreatedAt: domain.Instant(d.Int()),
		})
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
	row.Position = eventstore.Position(d.Uint())
	return row, d.End()
}
