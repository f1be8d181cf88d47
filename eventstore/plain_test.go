package eventstore

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"payledger/domain"
)

// asGeneral fails unless readPlain gives up on the record or answers what the
// general decoder does. It reports whether it gave up.
func asGeneral(t interface{ Fatalf(string, ...any) }, c *Codec, r Stored) (plain bool) {
	got, ok := c.readPlain(r)
	if !ok {
		return false
	}
	want, err := c.decode(r)
	if err != nil {
		t.Fatalf("accepted, where the general decoder says %v: %q", err, r.Body)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("-general +plain:\n%s\n%q", d, r.Body)
	}
	return true
}

// plainTypes are those that readPlain is for.
func plainTypes() map[string]bool {
	return map[string]bool{
		domain.TypePaymentCreated: true, domain.TypePaymentRouteAssigned: true, domain.TypePaymentPaid: true,
		domain.TypePaymentExpired: true, domain.TypePaymentFailed: true, domain.TypeRefundCreated: true,
		domain.TypeRefundSucceeded: true, domain.TypeRefundFailed: true,
	}
}

// What Encode writes of usual events is plain, so that a change of a shape
// does not make everything slow unnoticed.
func TestUsualEventsArePlain(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	for _, e := range domain.Events() {
		r := encoded(t, c, e.Sample)
		if plain := asGeneral(t, c, r); plain != plainTypes()[e.Name] {
			t.Errorf("%s: plain is %t", e.Name, plain)
		}
	}
	created, _ := domain.Events()[0].Sample.(domain.PaymentCreated)
	for _, payload := range []string{`{}`, `{"a":[{}, {"b":"}{\"\\"}],"c":-1.5e7}`, `{"я":"\u043f"}`} {
		created.Payload = domain.JSON(payload)
		if r := encoded(t, c, created); !asGeneral(t, c, r) {
			t.Errorf("not plain: %s", r.Body)
		}
	}
}

func encoded(t interface{ Fatalf(string, ...any) }, c *Codec, e domain.Event) Stored {
	r := sampled(e, nil)
	var err error
	if r.Body, err = c.Encode(r.Stream, r.Sequence, r.Commit, e); err != nil {
		t.Fatalf("%v", err)
	}
	return r
}

// TestPlainIsAsGeneral draws every value an event can carry, and then spoils
// the bytes of those that carry usual ones.
func TestPlainIsAsGeneral(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	samples := domain.Events()
	rapid.Check(t, func(t *rapid.T) {
		asGeneral(t, c, encoded(t, c, anyEvent().Draw(t, "event")))

		r := encoded(t, c, rapid.SampledFrom(samples).Draw(t, "sample").Sample)
		other := encoded(t, c, rapid.SampledFrom(samples).Draw(t, "other").Sample).Body
		body := bytes.Clone(r.Body)
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			at := rapid.IntRange(0, len(body)-1).Draw(t, "at")
			to := min(len(body), at+rapid.IntRange(0, 30).Draw(t, "length"))
			from := rapid.IntRange(0, len(other)-1).Draw(t, "from")
			put := rapid.OneOf(
				rapid.SliceOfN(rapid.SampledFrom([]byte("\"\\{}[]:,.-+0123456789eEntruflsaZTz \n\x00\x1f\x7f\x80\xc3\xff")), 0, 3),
				rapid.Just(other[from:min(len(other), from+to-at)]),
			).Draw(t, "put")
			body = append(append(bytes.Clone(body[:at]), put...), body[to:]...)
			if len(body) == 0 {
				break
			}
		}
		r.Body = body
		asGeneral(t, c, r)
	})
}

// TestPlainIsWrittenAsGeneral draws every value an event can carry: what is
// written plainly is what the general encoder writes, to the byte, and is read
// as that very event.
func TestPlainIsWrittenAsGeneral(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	same := func(t interface{ Fatalf(string, ...any) }, s Stream, sequence uint64, id domain.ID, e domain.Event) (plain bool) {
		got, ok := appendPlain(nil, s, sequence, id, c.byName[e.Type()], e)
		if !ok {
			return false
		}
		want, err := encode(s, sequence, id, c.byName[e.Type()], e)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("plain:   %s\ngeneral: %s, %v", got, want, err)
		}
		again, err := c.decode(Stored{Stream: s, Sequence: sequence, Commit: id, Body: got})
		if d := cmp.Diff(e, again); (err != nil || d != "") && domain.IDTime(id).Time().Year() < 10_000 {
			t.Fatalf("-written +read: %v\n%s\n%s", err, d, got)
		}
		return true
	}
	for _, e := range domain.Events() {
		r := sampled(e.Sample, nil)
		if plain := same(t, r.Stream, r.Sequence, r.Commit, e.Sample); plain != plainTypes()[e.Name] {
			t.Errorf("%s: plain is %t", e.Name, plain)
		}
	}
	invalid := "\xff"
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent().Draw(t, "event")
		if created, ok := e.(domain.PaymentCreated); ok {
			created.Payload = rapid.OneOf(
				rapid.Just(created.Payload),
				rapid.Custom(func(t *rapid.T) domain.JSON {
					return domain.JSON(rapid.StringOf(rapid.SampledFrom([]rune("{}[]\":,\\ \t\n1e-0.truefalsn\ufffdя\u2028\x7f"))).Draw(t, "payload"))
				}),
				rapid.SampledFrom([]domain.JSON{nil, domain.JSON("null"), domain.JSON(`{"a": 1}`), domain.JSON(`{"a":1,"a":2}`), domain.JSON("{\"a\":\"\xff\"}"), domain.JSON(`{"a":1}}`)}),
			).Draw(t, "payload")
			if rapid.Bool().Draw(t, "invalid") {
				created.Description = &invalid
			}
			e = created
		}
		s := Stream{Project: texts(t, "project"), Kind: texts(t, "kind"), ID: texts(t, "stream")}
		same(t, s, rapid.Uint64().Draw(t, "sequence"), ids(t, "id"), e)
		r := sampled(e, nil)
		same(t, r.Stream, r.Sequence, r.Commit, e)
	})
}

// TestPlainReadsEachByte changes each byte of each sample into others, and
// takes the record for those of other streams.
func TestPlainReadsEachByte(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	for _, e := range domain.Events() {
		if !plainTypes()[e.Name] {
			continue
		}
		good := encoded(t, c, e.Sample)
		for i, was := range good.Body {
			r := good
			r.Body = bytes.Clone(good.Body)
			for _, b := range []byte("\x00 \"\\0159aeEFZz{}[]:,.-\x7f\xff") {
				if r.Body[i] = b; b != was {
					asGeneral(t, c, r)
				}
			}
			r.Body = append(bytes.Clone(good.Body[:i]), good.Body[i+1:]...)
			asGeneral(t, c, r)
			r.Body = good.Body[:i]
			asGeneral(t, c, r)
		}
		for what, change := range map[string]func(*Stored){
			"stream":      func(r *Stored) { r.Stream.ID += "x" },
			"project":     func(r *Stored) { r.Stream.Project = "prj_x" },
			"kind":        func(r *Stored) { r.Stream.Kind = KindProject },
			"sequence":    func(r *Stored) { r.Sequence++ },
			"id":          func(r *Stored) { r.Commit[15]++ },
			"time":        func(r *Stored) { r.Commit[5]++ },
			"end":         func(r *Stored) { r.Body = append(bytes.Clone(r.Body), ' ') },
			"escaped":     func(r *Stored) { r.Body = bytes.Replace(r.Body, []byte(`"RUB"`), []byte(`"RUB\u0000"`), 1) },
			"huge number": func(r *Stored) { r.Body = bytes.Replace(r.Body, []byte(`:3,`), []byte(`:18446744073709551619,`), 1) },
		} {
			r := good
			if change(&r); asGeneral(t, c, r) && what != "escaped" {
				t.Errorf("%s, other %s: accepted", e.Name, what)
			}
		}
	}
}

func FuzzPlain(f *testing.F) {
	c := NewCodec()
	for _, e := range domain.Events() {
		f.Add(encoded(f, c, e.Sample).Body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		asGeneral(t, c, sampled(domain.PaymentPaid{}, body))
	})
}

// BenchmarkDecoders compares the two decoders on the events of a payment's
// whole life, with a mere pass over the tokens as the baseline.
func BenchmarkDecoders(b *testing.B) {
	c := NewCodec()
	var all []Stored
	for _, e := range domain.Events() {
		switch e.Name {
		case domain.TypePaymentCreated, domain.TypePaymentRouteAssigned, domain.TypePaymentPaid,
			domain.TypeRefundCreated, domain.TypeRefundSucceeded:
			all = append(all, encoded(b, c, e.Sample))
		}
	}
	run := func(name string, read func(Stored) bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if !read(all[i%len(all)]) {
					b.Fatal("not read")
				}
			}
		})
	}
	run("write general", func(r Stored) bool {
		e, err := c.Decode(r)
		if err == nil {
			_, err = encode(r.Stream, r.Sequence, r.Commit, c.byName[e.Type()], e)
		}
		return err == nil
	})
	run("write plain", func(r Stored) bool {
		e, err := c.Decode(r)
		if err == nil {
			_, err = c.Encode(r.Stream, r.Sequence, r.Commit, e)
		}
		return err == nil
	})
	run("valid", func(r Stored) bool { return jsontext.Value(r.Body).IsValid() })
	run("general", func(r Stored) bool { _, err := c.decode(r); return err == nil })
	run("plain", func(r Stored) bool { _, err := c.Decode(r); return err == nil })
}
