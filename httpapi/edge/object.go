package edge

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
)

// encode writes an answer as JSON. Payments, which are asked for most, are
// written without reflection, to the very bytes that it would lead to, and
// into the room that is given.
func encode(room *[]byte, v any) (b []byte, err error) {
	if p, ok := v.(domain.PaymentObject); ok {
		*room, err = appendPayment((*room)[:0], &p)
		return *room, err
	}
	return json.Marshal(v, AsWritten())
}

func appendPayment(to []byte, p *domain.PaymentObject) ([]byte, error) {
	w := objectWriter{to: to}
	w.word(`{"id":"`)
	at := len(w.to)
	w.word(`00000000000000000000000000`)
	w.note(p.ID.MarshalTextTo(w.to[at:]))
	w.word(`","status":`)
	w.text(string(p.Status))
	w.word(`,"amount":"`)
	w.take(p.Amount.AppendText(w.to))
	w.word(`","currency":`)
	w.text(string(p.Currency))
	w.word(`,"description":`)
	if p.Description != nil {
		w.text(*p.Description)
	} else {
		w.word("null")
	}
	w.word(`,"payload":`)
	if len(p.Payload) > 0 {
		w.to = append(w.to, p.Payload...) // of the log, compact and valid
	} else {
		w.word("null")
	}
	if p.Instructions != nil {
		w.word(`,"instructions":{"type":`)
		w.text(p.Instructions.Type)
		w.word(`,"url":`)
		w.text(p.Instructions.URL)
		w.word("}")
	}
	w.word(`,"created_at":"`)
	w.take(p.CreatedAt.AppendText(w.to))
	w.word(`"}`)
	return w.to, w.err
}

// objectWriter appends JSON and keeps the first error.
type objectWriter struct {
	to  []byte
	err error
}

func (w *objectWriter) word(s string) { w.to = append(w.to, s...) }

func (w *objectWriter) text(s string) { w.take(jsontext.AppendQuote(w.to, s)) }

func (w *objectWriter) take(to []byte, err error) {
	w.to = to
	w.note(err)
}

func (w *objectWriter) note(err error) {
	if w.err == nil {
		w.err = err
	}
}
