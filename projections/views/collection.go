package views

import (
	"encoding/binary"

	"payledger/domain"
	"payledger/eventstore/boltfile"
)

// The end of a payment's row: its attempts, late funds, their returns, refunds by
// another hand, and what the operator has settled. Most payments have one attempt or none, and nothing of the rest.

func appendCollection(b []byte, p *domain.Payment) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.Attempts)))
	for i := range p.Attempts {
		a := &p.Attempts[i]
		b = binary.AppendVarint(b, int64(a.Number))
		b = boltfile.AppendText(b, a.Status)
		b = binary.AppendVarint(b, int64(a.BegunAt))
		b = boltfile.AppendText(b, a.Language)
		b = boltfile.AppendText(b, a.Merchant)
		b = boltfile.AppendText(b, a.Reference)
		b = boltfile.AppendText(b, a.HandOff)
		b = binary.AppendVarint(b, int64(a.ExpiresAt))
		b = boltfile.AppendText(b, a.Reason)
	}
	b = binary.AppendUvarint(b, uint64(len(p.Late)))
	for i := range p.Late {
		f := &p.Late[i]
		b = boltfile.AppendText(b, f.Reference)
		b = boltfile.AppendText(b, f.Reason)
		b = binary.AppendVarint(b, int64(f.Amount))
		b = boltfile.AppendText(b, f.Currency)
	}
	b = binary.AppendUvarint(b, uint64(len(p.Returns)))
	for i := range p.Returns {
		b = appendRefund(b, &p.Returns[i].Refund)
		b = boltfile.AppendText(b, p.Returns[i].Reference)
	}
	b = binary.AppendUvarint(b, uint64(len(p.ProviderRefunds)))
	for i := range p.ProviderRefunds {
		r := &p.ProviderRefunds[i]
		b = boltfile.AppendText(b, r.Reference)
		b = boltfile.AppendText(b, r.RefundReference)
		b = binary.AppendVarint(b, int64(r.Amount))
		b = boltfile.AppendText(b, r.Currency)
	}
	b = binary.AppendUvarint(b, uint64(len(p.Settlements)))
	for i := range p.Settlements {
		s := &p.Settlements[i]
		b = boltfile.AppendText(b, s.Reference)
		b = boltfile.AppendText(b, s.Debit)
		b = boltfile.AppendText(b, s.Credit)
		b = binary.AppendVarint(b, int64(s.Amount))
		b = boltfile.AppendText(b, s.Currency)
		b = boltfile.AppendText(b, s.Reason)
	}
	return b
}

func parseCollection(d *boltfile.Decoder, p *domain.Payment) {
	for range d.Uint() {
		p.Attempts = append(p.Attempts, domain.Attempt{
			Number: int(d.Int()), Status: domain.AttemptStatus(d.Text()), BegunAt: domain.Instant(d.Int()), Language: string(d.Text()),
			Merchant: string(d.Text()), Reference: string(d.Text()), HandOff: domain.HandOffKind(d.Text()),
			ExpiresAt: domain.Instant(d.Int()), Reason: string(d.Text()),
		})
	}
	for range d.Uint() {
		p.Late = append(p.Late, domain.LateFund{
			Reference: string(d.Text()), Reason: string(d.Text()), Amount: domain.Amount(d.Int()), Currency: currencyOf(d.Text()),
		})
	}
	for range d.Uint() {
		p.Returns = append(p.Returns, domain.Return{Refund: parseRefund(d), Reference: string(d.Text())})
	}
	for range d.Uint() {
		p.ProviderRefunds = append(p.ProviderRefunds, domain.ProviderRefund{
			Reference: string(d.Text()), RefundReference: string(d.Text()), Amount: domain.Amount(d.Int()), Currency: currencyOf(d.Text()),
		})
	}
	for range d.Uint() {
		p.Settlements = append(p.Settlements, domain.Settlement{
			Reference: string(d.Text()), Debit: domain.Account(d.Text()), Credit: domain.Account(d.Text()),
			Amount: domain.Amount(d.Int()), Currency: currencyOf(d.Text()), Reason: string(d.Text()),
		})
	}
}

func appendRefund(b []byte, r *domain.Refund) []byte {
	b = append(b, r.ID[:]...)
	b = boltfile.AppendText(b, r.Status)
	b = binary.AppendVarint(b, int64(r.Amount))
	b = boltfile.AppendText(b, r.Currency)
	return binary.AppendVarint(b, int64(r.CreatedAt))
}

func parseRefund(d *boltfile.Decoder) domain.Refund {
	return domain.Refund{
		ID: d.ID(), Status: domain.RefundStatus(d.Text()), Amount: domain.Amount(d.Int()), Currency: currencyOf(d.Text()),
		CreatedAt: domain.Instant(d.Int()),
	}
}
