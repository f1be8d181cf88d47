package eventstore

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/domain/projects"
)

func texts(t *rapid.T, name string) string {
	return rapid.StringOf(rapid.OneOf(
		rapid.Rune(), rapid.SampledFrom([]rune("<>&\"'\\/\u2028\u2029\u007f\u0000\t\U0001F600é")),
	)).Draw(t, name)
}

// payloads are JSON objects as a merchant may write them, without white space
// between the tokens.
func payloads(t *rapid.T, name string) domain.JSON {
	values := rapid.SampledFrom([]string{
		`"<"`, `"\u003c"`, `"\u003C"`, `"\/"`, "\"\u2028\"", `"\u2028"`, `"\ud83d\ude00"`, `"😀"`, `""`,
		`12345678901234567890`, `1.0`, `1.50`, `-0`, `1E400`, `1e-7`, `true`, `null`, `[]`, `{"b":1,"a":{}}`,
	})
	var b strings.Builder
	for i, v := range rapid.SliceOfN(values, 0, 8).Draw(t, name) {
		b.WriteString(`,"` + strings.Repeat("z", 8-i) + `":` + v)
	}
	return domain.JSON("{" + strings.TrimPrefix(b.String(), ",") + "}")
}

// fill draws a value of v's type. Amounts are valid, instants can be written, and
// lists are never nil, because a nil list is read back as an empty one.
func fill(t *rapid.T, name string, v reflect.Value) {
	switch into := v.Addr().Interface().(type) {
	case *domain.Instant:
		*into = domain.Instant(rapid.Int64Range(0, 253402300799999).Draw(t, name))
		return
	case *domain.Amount:
		*into = domain.Amount(rapid.Int64Range(int64(domain.MinAmount), int64(domain.MaxAmount)).Draw(t, name))
		return
	case *domain.Sum:
		*into = domain.Sum{Hi: rapid.Int64Range(-1<<61, 1<<61).Draw(t, name), Lo: rapid.Int64().Draw(t, name+" low")}
		return
	case *domain.JSON:
		*into = payloads(t, name)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts(t, name))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name))
	case reflect.Int:
		v.SetInt(int64(rapid.Int().Draw(t, name)))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, name))
	case reflect.Array: // of bytes
		reflect.Copy(v, reflect.ValueOf(rapid.SliceOfN(rapid.Byte(), v.Len(), v.Len()).Draw(t, name)))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, name+"?") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, name, v.Elem())
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(t, name+" length")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(t, fmt.Sprintf("%s[%d]", name, i), v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, name+"."+v.Type().Field(i).Name, v.Field(i))
		}
	default:
		t.Fatalf("%s: values of type %s are not drawn", name, v.Type())
	}
}

// TestCodecRoundTrip: an event of any type, with any members, is encoded in one line
// and decoded to the same event.
func TestCodecRoundTrip(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	for _, typ := range EventTypes() {
		t.Run(typ.Name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				p := typ.New()
				fill(t, typ.Name, reflect.ValueOf(p).Elem())
				want := typ.Value(p)
				var details []byte
				if created, ok := want.(domain.PaymentCreated); ok && created.Details != nil {
					var err error
					created.Details = nil
					if want, details, err = c.detach(created); err != nil {
						t.Fatal(err)
					}
				}
				r := sampled(want, nil)
				r.Details = details
				r.Stream.ID, r.Sequence = texts(t, "stream"), rapid.Uint64().Draw(t, "sequence")
				body, err := c.Encode(r.Stream, r.Sequence, r.Commit, Cause{}, want)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.ContainsAny(body, "\n\r") {
					t.Fatalf("more than one line: %s", body)
				}
				r.Body = body
				got, version, err := c.DecodeVersion(r)
				if err != nil || version != typ.Version {
					t.Fatalf("version %d, %v: %s", version, err, body)
				}
				if d := cmp.Diff(want, got, cmpopts.EquateComparable(domain.Sum{})); d != "" {
					t.Fatalf("-want +got:\n%s", d)
				}
			})
		})
	}
}

// TestDecodeReadsAnyOrder moves the data before the type.
func TestDecodeReadsAnyOrder(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	for _, e := range EventTypes() {
		r := sampled(e.Sample, nil)
		body, err := c.Encode(r.Stream, r.Sequence, r.Commit, Cause{}, e.Sample)
		if err != nil {
			t.Fatal(err)
		}
		line, data, _ := strings.Cut(strings.TrimSuffix(string(body), "}"), `,"data":`)
		r.Body = []byte(`{"data":` + data + "," + line[1:] + "}")
		got, version, err := c.DecodeVersion(r)
		if d := cmp.Diff(e.Sample, got, cmpopts.EquateComparable(domain.Sum{})); d != "" || err != nil || version != e.Version {
			t.Errorf("%s: version %d, %v (-sample +decoded):\n%s", e.Name, version, err, d)
		}
	}
}

// A merchant's payload and description are decoded unchanged, and the record
// contains the payload byte for byte.
func TestCodecKeepsBytes(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	for _, payload := range []string{
		`{}`, `{"a":"<"}`, `{"a":"\u003c"}`, `{"a":"\u003C\/"}`, `{"n":12345678901234567890}`, `{"n":1.50e+10}`, `{"n":-0.0}`,
		`{"b":1,"a":2,"A":3}`, "{\"s\":\"\u2028\u2029\"}", `{"s":"\u2028"}`, `{"s":"😀"}`, `{"s":"\ud83d\ude00"}`, `{"s":"\"\\"}`,
		`{"":{"":[[],{}]}}`, `{"\u0061":1}`,
	} {
		description := "quotes \" ' \\, tags <b>&, \u2028, \U0001F600, e\u0301"
		e := domain.PaymentCreated{Amount: 1, Currency: "RUB", Description: &description, Payload: domain.JSON(payload)}
		r := sampled(e, nil)
		body, err := c.Encode(r.Stream, r.Sequence, r.Commit, Cause{}, e)
		if err != nil {
			t.Errorf("%s: %v", payload, err)
			continue
		}
		if !bytes.Contains(body, []byte(`"payload":`+payload+`,"link"`)) {
			t.Errorf("%s is stored as %s", payload, body)
		}
		r.Body = body
		got, err := c.Decode(r)
		if err != nil {
			t.Errorf("%s: %v", payload, err)
			continue
		}
		created, _ := got.(domain.PaymentCreated)
		if string(created.Payload) != payload || *created.Description != description {
			t.Errorf("payload %s, description %q came back as %s, %q", payload, description, created.Payload, *created.Description)
		}

		apart, details, err := c.detach(e)
		if err != nil || !bytes.Contains(details[SaltSize:], []byte(`"payload":`+payload)) {
			t.Errorf("%s is kept apart as %s: %v", payload, details, err)
			continue
		}
		if r.Body, err = c.Encode(r.Stream, r.Sequence, r.Commit, Cause{}, apart); err != nil || bytes.Contains(r.Body, []byte("quotes")) {
			t.Errorf("the body of a payment whose details are kept apart: %s, %v", r.Body, err)
		}
		r.Details = details
		if got, err = c.Decode(r); err != nil {
			t.Error(err)
			continue
		}
		created, _ = got.(domain.PaymentCreated)
		if string(created.Payload) != payload || *created.Description != description {
			t.Errorf("kept apart, payload %s, description %q came back as %s, %q", payload, description, created.Payload, *created.Description)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	invalid := "\xff"
	for what, e := range map[string]domain.Event{
		"an unknown event":        strange{},
		"an invalid description":  domain.PaymentCreated{Amount: 1, Description: &invalid, Payload: domain.EmptyObject()},
		"an invalid payload":      domain.PaymentCreated{Amount: 1, Payload: domain.JSON(`{"a":`)},
		"a payload with two same": domain.PaymentCreated{Amount: 1, Payload: domain.JSON(`{"a":1,"a":2}`)},
		"an invalid reference":    domain.PaymentPaid{Signal: domain.Signal{Reference: invalid, Amount: 1}},
	} {
		r := sampled(e, nil)
		if b, err := NewCodec().Encode(r.Stream, r.Sequence, r.Commit, Cause{}, e); err == nil {
			t.Errorf("%s is encoded as %s", what, b)
		}
	}
}

type strange struct{}

func (strange) Type() string { return "payment.eaten" }

// Decode refuses a body that is not exactly an event of this record. The error has
// the position.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	e := domain.PaymentRouteAssigned{Route: "sandbox"}
	good := sampled(e, nil)
	body, err := c.Encode(good.Stream, good.Sequence, good.Commit, Cause{}, e)
	if err != nil {
		t.Fatal(err)
	}
	good.Body = body
	if _, err := c.Decode(good); err != nil {
		t.Fatal(err)
	}
	spoil := func(old, with string) func(*Stored) {
		return func(r *Stored) {
			spoiled := strings.Replace(string(body), old, with, 1)
			if spoiled == string(body) {
				t.Errorf("%q is not in the record", old)
			}
			r.Body = []byte(spoiled)
		}
	}
	for what, change := range map[string]func(*Stored){
		"unknown member":         spoil(`"version":2,`, `"version":2,"extra":1,`),
		"unknown member of data": spoil(`{"route"`, `{"extra":1,"route"`),
		"member of other case":   spoil(`{"route"`, `{"Route"`),
		"duplicate member":       spoil(`"version":2,`, `"version":2,"version":2,`),
		"duplicate in data":      spoil(`"route":"sandbox"`, `"route":"sandbox","route":"sandbox"`),
		"unknown type":           spoil(`payment.route_assigned`, `payment.eaten`),
		"newer version":          spoil(`"version":2`, `"version":3`),
		"version zero":           spoil(`"version":2`, `"version":0`),
		"no version":             spoil(`"version":2,`, ``),
		"wrong type":             spoil(`"sandbox"`, `7`),
		"no data":                spoil(`,"data":{"route":"sandbox"}`, ``),
		"null data":              spoil(`{"route":"sandbox"}`, `null`),
		"data is a list":         spoil(`{"route":"sandbox"}`, `[]`),
		"invalid UTF-8":          spoil(`sandbox`, "\xff"),
		"cut off":                func(r *Stored) { r.Body = body[:len(body)-1] },
		"trailing data":          func(r *Stored) { r.Body = append(bytes.Clone(body), "{}"...) },
		"empty":                  func(r *Stored) { r.Body = nil },
		"other stream":           func(r *Stored) { r.Stream.ID = "x" },
		"other project":          func(r *Stored) { r.Stream.Project = "prj_x" },
		"other kind":             func(r *Stored) { r.Stream.Kind = KindProject },
		"other sequence":         func(r *Stored) { r.Sequence++ },
		"other id":               func(r *Stored) { r.Commit[15]++ },
		"other time":             spoil(`10:15:30.123Z","data"`, `10:15:30.124Z","data"`),
	} {
		r := good
		change(&r)
		got, err := c.Decode(r)
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.Position != r.Position || got != nil {
			t.Errorf("%s: %v, %v; want a CorruptError at %d", what, got, err, r.Position)
		}
	}
}

func FuzzDecode(f *testing.F) {
	c := NewCodec()
	for _, e := range EventTypes() {
		r := sampled(e.Sample, nil)
		body, err := c.Encode(r.Stream, r.Sequence, r.Commit, Cause{}, e.Sample)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Add([]byte(`{"data":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, e := range []domain.Event{domain.PaymentPaid{}, projects.ProjectDisabled{}} {
			r := sampled(e, body)
			got, err := c.Decode(r)
			if err != nil {
				var corrupt *CorruptError
				if !errors.As(err, &corrupt) || corrupt.Position != r.Position {
					t.Fatalf("%v, want a CorruptError at %d", err, r.Position)
				}
				continue
			}
			// A decoded event can be encoded, and is decoded to the same event again.
			if r.Body, err = c.Encode(r.Stream, r.Sequence, r.Commit, Cause{}, got); err != nil {
				continue // for instance an instant after the year 9999
			}
			if bytes.Contains(r.Body, []byte(`"0.00"`)) {
				continue // an amount was left out: no command makes such an event, and the checker says so
			}
			again, err := c.Decode(r)
			if err != nil {
				t.Fatalf("%v: %s", err, r.Body)
			}
			if d := cmp.Diff(got, again, cmpopts.EquateComparable(domain.Sum{})); d != "" {
				t.Fatalf("-first +again:\n%s", d)
			}
		}
	})
}
