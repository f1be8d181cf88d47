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
	Created  eventstore.Position
	Absent   bool
	Payment  domain.Payment // without its id
}

func newEncoder() encoder { return encoder{form: values.Sharing()} }

func (k *encoder) encode(from *payment) string {
	p := from.state
	k.form.Share(p.Project)
	k.form.Share(p.Route)
	p.ID = domain.ID{}
	k.buf = k.form.Append(k.buf[:0], &encoded{from.position, from.sequence, from.blind, from.created, from.absent, p})
	return string(k.buf)
}

// decode decodes the result of encode of the same encoder.
func (k *encoder) decode(id domain.ID, s string) payment {
	var p encoded
	if err := k.form.Parse([]byte(s), &p); err != nil {
		panic(err) // encode wrote it
	}
	p.Payment.ID = id
	return payment{head{p.Position, p.Sequence, p.Blind}, p.Created, p.Absent, p.Payment}
}
