package connectortest

import (
	"errors"
	"slices"

	"github.com/google/go-cmp/cmp"

	"payledger/notifier/connector"
)

// sends skips the test if the provider sends no notifications over HTTP.
func (b *bench) sends() {
	if b.provider.Forged("any").Body == nil {
		b.Skip("the provider sends no notifications over HTTP")
	}
}

// sent reads what the provider has sent, each notification twice, and checks that it names only the
// attempt.
func (b *bench) sent(a connector.Attempt) []connector.Notice {
	b.Helper()
	var all []connector.Notice
	for _, n := range b.provider.Sent() {
		notices, err := b.connector.Notices(b.context(), n.Header, n.Body)
		b.must(err)
		again, err := b.connector.Notices(b.context(), n.Header, n.Body)
		b.must(err)
		if diff := cmp.Diff(notices, again); diff != "" {
			b.Errorf("read twice: %s", diff)
		}
		all = append(all, notices...)
	}
	for _, n := range all {
		if n.Reference != a.Reference && n.Payment != a.Payment || n.Reference != "" && n.Reference != a.Reference || !n.Payment.IsZero() && n.Payment != a.Payment {
			b.Errorf("a notice about another attempt: %+v; want %s, %q", n, a.Payment, a.Reference)
		}
	}
	return all
}

// notifications: what the provider sends names the attempt.
func notifications(b *bench) {
	b.sends()
	a := b.begun(b.attempt())
	b.sent(a)
	b.pay(a)
	if len(b.sent(a)) == 0 {
		b.Error("no notice of the payment")
	}
	b.in(a, connector.Paid)
	b.provider.RefundByHand(a.Reference)
	if !slices.ContainsFunc(b.sent(a), func(n connector.Notice) bool { return n.Refunds }) {
		b.Error("no notice of the refund made by hand")
	}

	a = b.paid()
	b.sent(a)
	r := b.refund(a)
	b.settled(r, true)
	if !slices.ContainsFunc(b.sent(a), func(n connector.Notice) bool { return n.Refunds }) {
		b.Error("no notice of the refund")
	}
}

// forgedNotifications: what is not the provider's is recognised, or names an
// attempt and does no more. What is malformed is refused.
func forgedNotifications(b *bench) {
	b.sends()
	a := b.begun(b.attempt())
	f := b.provider.Forged(a.Reference)
	notices, err := b.connector.Notices(b.context(), f.Header, f.Body)
	b.clean(err)
	if !errors.Is(err, connector.ErrForged) && (err != nil || len(notices) > connector.MaxNotices) {
		b.Errorf("forged: %+v, %v", notices, err)
	}
	b.in(a, connector.Open)

	b.provider.Sent()
	b.pay(a)
	for _, n := range b.provider.Sent() { // altered on its way
		altered := slices.Clone(n.Body)
		altered[len(altered)/2] ^= 1
		if notices, err := b.connector.Notices(b.context(), n.Header, altered); len(notices) > connector.MaxNotices {
			b.Errorf("altered: %d notices, %v", len(notices), err)
		}
	}
	for _, body := range []string{"", "{", "[]", "null", "42", `"text"`, "\xff\xfe", "{}", `{"type":1}`, `{"a":1,"a":2}`, `{"object":{}}`} {
		n := b.provider.Signed([]byte(body))
		notices, err := b.connector.Notices(b.context(), n.Header, n.Body)
		b.clean(err)
		if _, refused := errors.AsType[*connector.RefusedError](err); !refused && !errors.Is(err, connector.ErrForged) || len(notices) > 0 {
			b.Errorf("malformed, %q: %+v, %v; want a RefusedError", body, notices, err)
		}
	}
}

// foreignNotifications: what concerns no payment names nothing.
func foreignNotifications(b *bench) {
	b.sends()
	foreign := b.provider.Foreign()
	if len(foreign) == 0 {
		b.Error("no foreign notifications to read")
	}
	for _, n := range foreign {
		notices, err := b.connector.Notices(b.context(), n.Header, n.Body)
		b.clean(err)
		if err != nil || len(notices) != 0 {
			b.Errorf("%s: %+v, %v; want none", n.Body, notices, err)
		}
	}
}
