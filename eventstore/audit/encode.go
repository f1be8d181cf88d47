package audit

import (
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/values"
)

// encoder encodes the state that later events of a payment are checked against.
// Texts that many payments share are stored as numbers.
type encoder struct {
	form *values.Structs
	buf  []byte
}

type encoded struct {
	Position eventstore.Position
	Sequence uint64
	Blind    bool
	Payment  domain.Payment // without its id
}

func newEncoder() encoder { return encoder{form: values.Sharing()} }

func (k *encoder) encode(h head, p domain.Payment) string {
	k.form.Share(p.Project)
	k.form.Share(p.Route)
	p.ID = domain.ID{}
	k.buf = k.form.Append(k.buf[:0], &encoded{h.position, h.sequence, h.blind, p})
	return string(k.buf)
}

// decode decodes the result of encode of the same encoder.
func (k *encoder) decode(id domain.ID, s string) (head, domain.Payment) {
	var p encoded
	if err := k.form.Parse([]byte(s), &p); err != nil {
		panic(err) // encode wrote it
	}
	p.Payment.ID = id
	return head{p.Position, p.Sequence, p.Blind}, p.Payment
}
