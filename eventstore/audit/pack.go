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
	for _, r := range p.Refunds {
		k.buf = append(k.buf, r.ID[:]...)
		k.text(string(r.Status))
		k.text(string(r.Currency))
		k.number(uint64(r.Amount))
	}
	k.number(uint64(len(p.Signals)))
	for _, s := range p.Signals {
		k.text(s.Route)
		k.text(string(s.Outcome))
		k.text(string(s.Currency))
		k.number(uint64(s.Amount))
		k.number(uint64(len(s.Reference)))
		k.buf = append(k.buf, s.Reference...)
		if s.RefundID == nil {
			k.number(0)
			continue
		}
		k.number(1)
		k.buf = append(k.buf, s.RefundID[:]...)
	}
	k.number(p.Refused)
	k.number(p.LateFunds)
	return string(k.buf)
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
		r := domain.Refund{ID: u.id(), Status: domain.RefundStatus(u.text()), Currency: domain.Currency(u.text())}
		r.Amount = domain.Amount(u.number())
		p.Refunds = append(p.Refunds, r)
	}
	for range u.number() {
		sig := domain.Signal{Route: u.text(), Outcome: domain.Outcome(u.text()), Currency: domain.Currency(u.text())}
		sig.Amount = domain.Amount(u.number())
		sig.Reference = string(u.bytes(u.number()))
		if u.number() == 1 {
			refund := u.id()
			sig.RefundID = &refund
		}
		p.Signals = append(p.Signals, sig)
	}
	p.Refused, p.LateFunds = u.number(), u.number()
	return h, p
}

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
