package eventstore

import (
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
)

// plainWriter writes what plain reads. It writes the very bytes of the general
// encoder, or gives up: what would have to be escaped, checked or brought into
// another form is left to that one.
type plainWriter struct {
	to  []byte
	bad bool
}

// appendPlain appends the record's line if all of it is plain.
func appendPlain(to []byte, s Stream, sequence uint64, id domain.ID, t domain.EventType, e domain.Event) ([]byte, bool) {
	w := plainWriter{to: to}
	w.id(`{"id":`, id)
	w.text(`,"type":`, t.Name)
	w.number(`,"version":`, int64(t.Version))
	w.text(`,"project":`, s.Project)
	w.text(`,"kind":`, s.Kind)
	w.text(`,"stream":`, s.ID)
	w.to = strconv.AppendUint(append(w.to, `,"sequence":`...), sequence, 10)
	w.instant(`,"at":`, domain.IDTime(id))
	w.word(`,"data":{`)
	w.event(e)
	w.word("}}")
	return w.to, !w.bad
}

// event writes the members of the events there are many of.
func (w *plainWriter) event(e domain.Event) {
	switch e := e.(type) {
	case domain.PaymentCreated:
		w.created(e)
	case domain.PaymentRouteAssigned:
		w.text(`"route":`, e.Route)
	case domain.PaymentPaid:
		w.signal(`"signal":`, &e.Signal)
	case domain.PaymentExpired:
		w.ending(e.Reason, e.Signal)
	case domain.PaymentFailed:
		w.ending(e.Reason, e.Signal)
	case domain.RefundCreated:
		w.id(`"refund_id":`, e.RefundID)
		w.instant(`,"created_at":`, e.CreatedAt)
		w.amount(`,"amount":`, e.Amount)
		w.text(`,"currency":`, string(e.Currency))
		w.claim(e.Idempotency)
	case domain.RefundSucceededEvent:
		w.id(`"refund_id":`, e.RefundID)
		w.signal(`,"signal":`, &e.Signal)
	case domain.RefundFailedEvent:
		w.id(`"refund_id":`, e.RefundID)
		w.signal(`,"signal":`, &e.Signal)
	default:
		w.bad = true
	}
}

func (w *plainWriter) created(e domain.PaymentCreated) {
	w.instant(`"created_at":`, e.CreatedAt)
	w.instant(`,"expires_at":`, e.ExpiresAt)
	w.amount(`,"amount":`, e.Amount)
	w.text(`,"currency":`, string(e.Currency))
	if e.Description != nil {
		w.text(`,"description":`, *e.Description)
	} else {
		w.word(`,"description":null`)
	}
	w.object(`,"payload":`, e.Payload)
	w.text(`,"link":{"base":`, e.Link.Base)
	w.number(`,"key_version":`, int64(e.Link.KeyVersion))
	w.number(`,"render":`, int64(e.Link.Render))
	w.word("}")
	w.claim(e.Idempotency)
}

func (w *plainWriter) ending(reason string, s *domain.Signal) {
	w.text(`"reason":`, reason)
	if s != nil {
		w.signal(`,"signal":`, s)
	}
}

func (w *plainWriter) signal(name string, s *domain.Signal) {
	w.word(name)
	w.text(`{"route":`, s.Route)
	w.text(`,"outcome":`, string(s.Outcome))
	w.text(`,"reference":`, s.Reference)
	if s.RefundID != nil {
		w.id(`,"refund_id":`, *s.RefundID)
	}
	w.amount(`,"amount":`, s.Amount)
	w.text(`,"currency":`, string(s.Currency))
	w.instant(`,"started_at":`, s.StartedAt)
	w.word("}")
}

func (w *plainWriter) claim(c *domain.Idempotency) {
	if c == nil {
		return
	}
	w.digest(`,"idempotency":{"key":`, &c.Key)
	w.digest(`,"fingerprint":`, &c.Fingerprint)
	w.word("}")
}

func (w *plainWriter) word(s string) { w.to = append(w.to, s...) }

func (w *plainWriter) number(name string, n int64) {
	w.to = strconv.AppendInt(append(w.to, name...), n, 10)
}

// text writes a string that stands for itself.
func (w *plainWriter) text(name, s string) {
	all := byte(0)
	for i := range len(s) {
		if b := s[i]; b < ' ' || b == '"' || b == '\\' {
			w.bad = true
			return
		}
		all |= s[i]
	}
	if all >= utf8.RuneSelf && !utf8.ValidString(s) {
		w.bad = true
		return
	}
	w.to = append(append(append(append(w.to, name...), '"'), s...), '"')
}

// The values below are written as the general encoder writes them.

func (w *plainWriter) digest(name string, d *domain.Digest) {
	w.open(name)
	w.close(d.AppendText(w.to))
}

func (w *plainWriter) id(name string, id domain.ID) {
	w.word(name)
	at := len(w.to) + 1
	w.word(`"00000000000000000000000000"`)
	if id.MarshalTextTo(w.to[at:len(w.to)-1]) != nil {
		w.bad = true
	}
}

func (w *plainWriter) instant(name string, i domain.Instant) {
	w.open(name)
	w.close(i.AppendText(w.to))
}

func (w *plainWriter) amount(name string, a domain.Amount) {
	w.open(name)
	w.close(a.AppendText(w.to))
}

func (w *plainWriter) open(name string) { w.to = append(append(w.to, name...), '"') }

func (w *plainWriter) close(text []byte, err error) {
	w.to = append(text, '"') //nolint:gocritic // text begins with what was written before
	w.bad = w.bad || err != nil
}

// object writes a JSON object that has no white space between its tokens.
func (w *plainWriter) object(name string, o domain.JSON) {
	if string(o) != "{}" && (!compactObject(o) || !jsontext.Value(o).IsValid()) {
		w.bad = true
		return
	}
	w.to = append(append(w.to, name...), o...)
}

// compactObject reports whether what may be an object, no larger than a
// merchant's can be, has no white space outside of strings.
func compactObject(o []byte) bool {
	if len(o) == 0 || len(o) > 2*domain.MaxPayload || o[0] != '{' {
		return false
	}
	quoted := false
	for i := 0; i < len(o); i++ {
		switch b := o[i]; {
		case b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case b <= ' ' && !quoted:
			return false
		}
	}
	return true
}
