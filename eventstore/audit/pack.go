package audit

import (
	"encoding/binary"

	"payledger/domain"
	"payledger/eventstore"
)

// packer encodes the state that later events of a payment are checked against in
// some 60 bytes. Texts that many payments share are stored as numbers. Members
// that no later rule reads, such as the description, are left out.
type packer struct {
	numbers map[string]uint64
	texts   []string
	buf     []byte
}

func newPacker() packer { return packer{numbers: make(map[string]uint64)} }

func (k *packer) pack(h head, p domain.Payment) string {
	k.buf = k.buf[:0]
	k.number(uint64(h.position))
	k.number(h.sequence)
	blind := uint64(0)
	if h.blind {
		blind = 1
	}
	k.number(blind)
	k.text(p.Project)
	k.text(string(p.Status))
	k.text(string(p.Currency))
	k.text(p.Route)
	k.number(uint64(p.Amount))
	k.number(uint64(p.ExpiresAt - p.CreatedAt))
	k.number(uint64(p.CreatedAt))
	k.number(uint64(len(p.Refunds)))
	for i := range p.Refunds {
		k.refund(&p.Refunds[i])
	}
	k.number(uint64(len(p.Signals)))
	for _, s := range p.Signals {
		k.text(s.Route)
		k.text(string(s.Outcome))
		k.text(string(s.Currency))
		k.number(uint64(s.Amount))
		k.bytes(s.Reference)
		if s.RefundID == nil {
			k.number(0)
			continue
		}
		k.number(1)
		k.buf = append(k.buf, s.RefundID[:]...)
	}
	k.bytes(p.PaidReference)
	k.number(p.Refused)
	k.number(p.LateFunds)
	k.collection(p)
	return string(k.buf)
}

// collection encodes attempts, late funds and what became of those.
func (k *packer) collection(p domain.Payment) {
	k.number(uint64(len(p.Attempts)))
	for _, a := range p.Attempts {
		k.text(string(a.Status))
		k.bytes(a.Reference)
	}
	k.number(uint64(len(p.Late)))
	for _, f := range p.Late {
		k.bytes(f.Reference)
		k.money(f.Amount, f.Currency)
	}
	k.number(uint64(len(p.Returns)))
	for i := range p.Returns {
		k.refund(&p.Returns[i].Refund)
		k.bytes(p.Returns[i].Reference)
	}
	k.number(uint64(len(p.ProviderRefunds)))
	for _, r := range p.ProviderRefunds {
		k.bytes(r.Reference)
		k.bytes(r.RefundReference)
		k.money(r.Amount, r.Currency)
	}
	k.number(uint64(len(p.Settlements)))
	for _, s := range p.Settlements {
		k.bytes(s.Reference)
		k.text(string(s.Debit))
		k.text(string(s.Credit))
		k.money(s.Amount, s.Currency)
		k.bytes(s.Reason)
	}
}

func (k *packer) refund(r *domain.Refund) {
	k.buf = append(k.buf, r.ID[:]...)
	k.text(string(r.Status))
	k.money(r.Amount, r.Currency)
}

func (k *packer) money(a domain.Amount, c domain.Currency) {
	k.number(uint64(a))
	k.text(string(c))
}

func (k *packer) bytes(s string) {
	k.number(uint64(len(s)))
	k.buf = append(k.buf, s...)
}

func (k *packer) number(n uint64) { k.buf = binary.AppendUvarint(k.buf, n) }

func (k *packer) text(s string) {
	n, ok := k.numbers[s]
	if !ok {
		n = uint64(len(k.texts))
		k.numbers[s], k.texts = n, append(k.texts, s)
	}
	k.number(n)
}

// unpack decodes the result of pack of the same packer.
func (k *packer) unpack(id domain.ID, s string) (h head, p domain.Payment) {
	u := unpacker{rest: []byte(s), texts: k.texts}
	h = head{position: eventstore.Position(u.number()), sequence: u.number(), blind: u.number() == 1}
	p = domain.Payment{
		ID: id, Project: u.text(), Status: domain.PaymentStatus(u.text()), Currency: domain.Currency(u.text()), Route: u.text(),
		Amount: domain.Amount(u.number()),
	}
	lifetime := u.number()
	p.CreatedAt = domain.Instant(u.number())
	p.ExpiresAt = p.CreatedAt + domain.Instant(lifetime)
	for range u.number() {
		p.Refunds = append(p.Refunds, u.refund())
	}
	for range u.number() {
		sig := domain.Signal{Route: u.text(), Outcome: domain.Outcome(u.text()), Currency: domain.Currency(u.text())}
		sig.Amount = domain.Amount(u.number())
		sig.Reference = u.words()
		if u.number() == 1 {
			refund := u.id()
			sig.RefundID = &refund
		}
		p.Signals = append(p.Signals, sig)
	}
	p.PaidReference = u.words()
	p.Refused, p.LateFunds = u.number(), u.number()
	u.collection(&p)
	return h, p
}

func (u *unpacker) collection(p *domain.Payment) {
	for n := range u.number() {
		p.Attempts = append(p.Attempts, domain.Attempt{Number: int(n) + 1, Status: domain.AttemptStatus(u.text()), Reference: u.words()})
	}
	for range u.number() {
		f := domain.LateFund{Reference: u.words()}
		f.Amount, f.Currency = u.money()
		p.Late = append(p.Late, f)
	}
	for range u.number() {
		p.Returns = append(p.Returns, domain.Return{Refund: u.refund(), Reference: u.words()})
	}
	for range u.number() {
		r := domain.ProviderRefund{Reference: u.words(), RefundReference: u.words()}
		r.Amount, r.Currency = u.money()
		p.ProviderRefunds = append(p.ProviderRefunds, r)
	}
	for range u.number() {
		s := domain.Settlement{Reference: u.words(), Debit: domain.Account(u.text()), Credit: domain.Account(u.text())}
		s.Amount, s.Currency = u.money()
		s.Reason = u.words()
		p.Settlements = append(p.Settlements, s)
	}
}

func (u *unpacker) refund() domain.Refund {
	r := domain.Refund{ID: u.id(), Status: domain.RefundStatus(u.text())}
	r.Amount, r.Currency = u.money()
	return r
}

func (u *unpacker) money() (domain.Amount, domain.Currency) {
	return domain.Amount(u.number()), domain.Currency(u.text())
}

// words are a text that no other payment shares.
func (u *unpacker) words() string { return string(u.bytes(u.number())) }

type unpacker struct {
	rest  []byte
	texts []string
}

func (u *unpacker) number() uint64 {
	n, size := binary.Uvarint(u.rest)
	u.rest = u.rest[size:]
	return n
}

func (u *unpacker) text() string { return u.texts[u.number()] }

func (u *unpacker) bytes(n uint64) []byte {
	b := u.rest[:n]
	u.rest = u.rest[n:]
	return b
}

func (u *unpacker) id() domain.ID { return domain.ID(u.bytes(uint64(len(domain.ID{})))) }
