package eventstore

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"payledger/domain"
)

// instants, texts and so on draw every value that an event can carry.
func instants(t *rapid.T, name string) domain.Instant {
	return domain.Instant(rapid.Int64Range(0, 253402300799999).Draw(t, name))
}

func amounts(t *rapid.T, name string) domain.Amount {
	return domain.Amount(rapid.Int64Range(int64(domain.MinAmount), int64(domain.MaxAmount)).Draw(t, name))
}

func texts(t *rapid.T, name string) string {
	return rapid.StringOf(rapid.OneOf(
		rapid.Rune(), rapid.SampledFrom([]rune("<>&\"'\\/\u2028\u2029\u007f\u0000\t\U0001F600é")),
	)).Draw(t, name)
}

func ids(t *rapid.T, name string) domain.ID {
	return domain.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, name))
}

func digests(t *rapid.T, name string) domain.Digest {
	return domain.Digest(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, name))
}

func maybe[T any](t *rapid.T, name string, draw func(*rapid.T, string) T) *T {
	if !rapid.Bool().Draw(t, name+"?") {
		return nil
	}
	v := draw(t, name)
	return &v
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

func signals(t *rapid.T, name string) domain.Signal {
	return domain.Signal{
		Route: texts(t, name+" route"), Outcome: domain.Outcome(texts(t, name+" outcome")),
		Reference: texts(t, name+" reference"), RefundID: maybe(t, name+" refund", ids), Amount: amounts(t, name+" amount"),
		Currency: domain.Currency(texts(t, name+" currency")), StartedAt: instants(t, name+" started"),
	}
}

func claims(t *rapid.T, name string) domain.Idempotency {
	return domain.Idempotency{Key: digests(t, name+" key"), Fingerprint: digests(t, name+" fingerprint")}
}

func settings(t *rapid.T, name string) domain.Settings {
	s := domain.DefaultSettings()
	s.Currencies = append(s.Currencies, domain.Currency(texts(t, name+" currency")))
	s.MaxAmount, s.LifetimeSeconds = amounts(t, name+" maximum"), rapid.Int().Draw(t, name+" lifetime")
	s.RequireIdempotencyKey = rapid.Bool().Draw(t, name+" required")
	return s
}

func anyEvent() *rapid.Generator[domain.Event] {
	return rapid.Custom(func(t *rapid.T) domain.Event {
		switch kinds := domain.Events(); kinds[rapid.IntRange(0, len(kinds)-1).Draw(t, "type")].Sample.(type) {
		case domain.PaymentCreated:
			return domain.PaymentCreated{
				CreatedAt: instants(t, "created"), ExpiresAt: instants(t, "expires"), Amount: amounts(t, "amount"),
				Currency: domain.Currency(texts(t, "currency")), Description: maybe(t, "description", texts),
				Payload: payloads(t, "payload"), Idempotency: maybe(t, "claim", claims),
				Link: domain.Link{Base: texts(t, "base"), KeyVersion: rapid.Int().Draw(t, "key"), Render: rapid.Int().Draw(t, "render")},
			}
		case domain.PaymentRouteAssigned:
			return domain.PaymentRouteAssigned{Route: texts(t, "route")}
		case domain.PaymentPaid:
			return domain.PaymentPaid{Signal: signals(t, "signal")}
		case domain.PaymentExpired:
			return domain.PaymentExpired{Reason: texts(t, "reason"), Signal: maybe(t, "signal", signals)}
		case domain.PaymentFailed:
			return domain.PaymentFailed{Reason: texts(t, "reason"), Signal: maybe(t, "signal", signals)}
		case domain.PaymentSignalRefused:
			return domain.PaymentSignalRefused{Reason: texts(t, "reason"), Signal: signals(t, "signal")}
		case domain.PaymentLateFunds:
			return domain.PaymentLateFunds{Reason: texts(t, "reason"), Signal: signals(t, "signal")}
		case domain.RefundCreated:
			return domain.RefundCreated{
				RefundID: ids(t, "refund"), CreatedAt: instants(t, "created"), Amount: amounts(t, "amount"),
				Currency: domain.Currency(texts(t, "currency")), Idempotency: maybe(t, "claim", claims),
			}
		case domain.RefundSucceededEvent:
			return domain.RefundSucceededEvent{RefundID: ids(t, "refund"), Signal: signals(t, "signal")}
		case domain.RefundFailedEvent:
			return domain.RefundFailedEvent{RefundID: ids(t, "refund"), Signal: signals(t, "signal")}
		case domain.ProjectRegistered:
			return domain.ProjectRegistered{Name: texts(t, "name"), Settings: settings(t, "settings")}
		case domain.ProjectChanged:
			return domain.ProjectChanged{Name: texts(t, "name"), Settings: settings(t, "settings")}
		case domain.ProjectDisabled:
			return domain.ProjectDisabled{}
		case domain.KeyIssued:
			return domain.KeyIssued{KeyID: texts(t, "key"), Hash: digests(t, "hash"), Scopes: domain.AllScopes()}
		case domain.KeyRevoked:
			return domain.KeyRevoked{KeyID: texts(t, "key")}
		case domain.WebhookEndpointAdded:
			return domain.WebhookEndpointAdded{
				EndpointID: texts(t, "endpoint"), CreatedAt: instants(t, "created"), URL: texts(t, "url"),
				Kinds: domain.Kinds(), Description: maybe(t, "description", texts), KeyVersion: rapid.Int().Draw(t, "key"),
			}
		case domain.WebhookEndpointChanged:
			return domain.WebhookEndpointChanged{
				EndpointID: texts(t, "endpoint"), URL: texts(t, "url"), Kinds: domain.Kinds(), Description: maybe(t, "description", texts),
			}
		case domain.WebhookEndpointDisabled:
			return domain.WebhookEndpointDisabled{
				At: instants(t, "at"), EndpointID: texts(t, "endpoint"), Reason: domain.DisabledReason(texts(t, "reason")),
			}
		case domain.WebhookEndpointEnabled:
			return domain.WebhookEndpointEnabled{EndpointID: texts(t, "endpoint")}
		case domain.WebhookEndpointRemoved:
			return domain.WebhookEndpointRemoved{EndpointID: texts(t, "endpoint")}
		case domain.WebhookSecretRotated:
			return domain.WebhookSecretRotated{
				EndpointID: texts(t, "endpoint"), Generation: rapid.Int().Draw(t, "generation"), KeyVersion: rapid.Int().Draw(t, "key"),
				PreviousUntil: instants(t, "until"),
			}
		default:
			t.Fatal("an event has no generator in this test")
			return nil
		}
	})
}

func TestCodecRoundTrip(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	rapid.Check(t, func(t *rapid.T) {
		want := anyEvent().Draw(t, "event")
		r := sampled(want, nil)
		r.Sequence = rapid.Uint64().Draw(t, "sequence")
		body, err := c.Encode(r.Stream, r.Sequence, r.Commit, want)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(body, "\n\r") {
			t.Fatalf("more than one line: %s", body)
		}
		r.Body = body
		got, err := c.Decode(r)
		if err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("-want +got:\n%s", d)
		}
	})
}

// A merchant's payload and description come back as they were sent, and the
// payload stands in the record byte for byte.
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
		body, err := c.Encode(r.Stream, r.Sequence, r.Commit, e)
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
		if b, err := NewCodec().Encode(r.Stream, r.Sequence, r.Commit, e); err == nil {
			t.Errorf("%s is encoded as %s", what, b)
		}
	}
}

type strange struct{}

func (strange) Type() string { return "payment.eaten" }

// Whatever is not exactly an event of this program, in its place, is refused
// with its position.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	e := domain.PaymentRouteAssigned{Route: "sandbox"}
	good := sampled(e, nil)
	body, err := c.Encode(good.Stream, good.Sequence, good.Commit, e)
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
		"unknown member":         spoil(`"version":1,`, `"version":1,"extra":1,`),
		"unknown member of data": spoil(`{"route"`, `{"extra":1,"route"`),
		"member of other case":   spoil(`{"route"`, `{"Route"`),
		"duplicate member":       spoil(`"version":1,`, `"version":1,"version":1,`),
		"duplicate in data":      spoil(`"route":"sandbox"`, `"route":"sandbox","route":"sandbox"`),
		"unknown type":           spoil(`payment.route_assigned`, `payment.eaten`),
		"newer version":          spoil(`"version":1`, `"version":2`),
		"version zero":           spoil(`"version":1`, `"version":0`),
		"no version":             spoil(`"version":1,`, ``),
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
	for _, e := range domain.Events() {
		r := sampled(e.Sample, nil)
		body, err := c.Encode(r.Stream, r.Sequence, r.Commit, e.Sample)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Add([]byte(`{"data":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, e := range []domain.Event{domain.PaymentPaid{}, domain.ProjectDisabled{}} {
			r := sampled(e, body)
			got, err := c.Decode(r)
			if err != nil {
				var corrupt *CorruptError
				if !errors.As(err, &corrupt) || corrupt.Position != r.Position {
					t.Fatalf("%v, want a CorruptError at %d", err, r.Position)
				}
				continue
			}
			// What was read can be written, and is then read as the same.
			if r.Body, err = c.Encode(r.Stream, r.Sequence, r.Commit, got); err != nil {
				continue // for instance an instant after the year 9999
			}
			again, err := c.Decode(r)
			if err != nil {
				t.Fatalf("%v: %s", err, r.Body)
			}
			if d := cmp.Diff(got, again); d != "" {
				t.Fatalf("-first +again:\n%s", d)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	c := NewCodec()
	e := domain.Events()[0].Sample
	r := sampled(e, nil)
	b.ReportAllocs()
	for b.Loop() {
		body, err := c.Encode(r.Stream, r.Sequence, r.Commit, e)
		if err != nil || len(body) > math.MaxInt32 {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(body)))
	}
}

func BenchmarkDecode(b *testing.B) {
	c := NewCodec()
	e := domain.Events()[0].Sample
	r := sampled(e, nil)
	body, err := c.Encode(r.Stream, r.Sequence, r.Commit, e)
	if err != nil {
		b.Fatal(err)
	}
	r.Body = body
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Decode(r); err != nil {
			b.Fatal(err)
		}
	}
}
