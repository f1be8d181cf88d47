package audit

import (
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/values"
)

// packer encodes the state that later events of a payment are checked against.
// Texts that many payments share are stored as numbers.
type packer struct {
	form *values.Structs
	buf  []byte
}

type packed struct {
	Position eventstore.Position
	Sequence uint64
	Blind    bool
	Payment  domain.Payment // without its id
}

func newPacker() packer { return packer{form: values.Sharing()} }

func (k *packer) pack(h head, p domain.Payment) string {
	k.form.Share(p.Project)
	k.form.Share(p.Route)
	p.ID = domain.ID{}
	k.buf = k.form.Append(k.buf[:0], &packed{h.position, h.sequence, h.blind, p})
	return string(k.buf)
}

// unpack decodes the result of pack of the same packer.
func (k *packer) unpack(id domain.ID, s string) (head, domain.Payment) {
	var p packed
	if err := k.form.Parse([]byte(s), &p); err != nil {
		panic(err) // pack wrote it
	}
	p.Payment.ID = id
	return head{p.Position, p.Sequence, p.Blind}, p.Payment
}
