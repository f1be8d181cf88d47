package connectortest

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/notifier/connector"
)

// Run checks what connector.Connector promises, for a connector and its provider. open makes a
// provider for each test; it ends what it started with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Provider) {
	t.Helper()
	for name, test := range map[string]func(*bench){
		"begins once for each key":               begins,
		"begins after every fault":               beginsAfterFaults,
		"reads what was collected":               reads,
		"reads another amount":                   readsAnotherAmount,
		"declines":                               declines,
		"expires":                                expires,
		"knows no other reference":               knowsNoOther,
		"reads no other payment's attempt":       readsNoOtherPayments,
		"cancels for good":                       cancels,
		"cancels too late":                       cancelsTooLate,
		"reads and cancels after every fault":    readsAfterFaults,
		"limits amounts":                         limitsAmounts,
		"refunds once for each id":               refunds,
		"refunds after every fault":              refundsAfterFaults,
		"refunds again after a failure":          refundsAfterFailure,
		"reads a refund that came back":          refundsThatComeBack,
		"finds refunds made by hand":             refundsByHand,
		"reads disputes":                         disputes,
		"finds its refund without its key":       refundsWithoutKey,
		"refunds nothing that was not collected": refundsNothing,
		"reads its notifications":                notifications,
		"believes no forged notification":        forgedNotifications,
		"ignores foreign notifications":          foreignNotifications,
		"ends with the context":                  endsWithContext,
		"serves many payments at once":           servesMany,
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			p := open(t)
			b := &bench{T: t, provider: p, connector: p.Connector()}
			b.ids = domain.NewIDs(time.Now, rand.Reader, domain.ID{})
			test(b)
		})
	}
}

// bench is one test of a connector.
type bench struct {
	*testing.T
	provider  Provider
	connector connector.Connector
	ids       *domain.IDs
}

// patience is how long a call may take. The collection engine gives each 15 s;
// a test on a busy machine needs more.
const patience = 20 * time.Second

func (b *bench) context() context.Context {
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	b.Cleanup(cancel)
	return ctx
}

// email represents the customer's data: no error may contain it.
const email = "customer@example.com"

// attempt is the first attempt of a new payment.
func (b *bench) attempt() connector.Attempt { return b.attemptOf(150_000) }

func (b *bench) attemptOf(amount domain.Amount) connector.Attempt {
	payment, now := b.ids.Next(), time.Now()
	return connector.Attempt{
		Project: "prj_connectortest",
		Payment: payment, Number: 1, Key: fmt.Sprintf("%s-1", payment),
		Amount: amount, Currency: domain.DefaultCurrency,
		BegunAt: domain.InstantOf(now), ExpiresAt: domain.InstantOf(now.Add(time.Hour)),
		ReturnURL: "https://pay.example.com/p/AAAAAAAAAAAAAAAAAAAAAA?returned=1",
		Language:  "en", Merchant: "Tea & Кофе <Ltd>",
		Receipt: fmt.Appendf(nil, `{"customer":{"email":%q},"items":[{"description":"Tea","quantity":"1","amount":{"value":%q,"currency":"RUB"},"vat_code":1}]}`, email, amount),
	}
}

// next is the payment's next attempt.
func next(a connector.Attempt) connector.Attempt {
	a.Number++
	a.Key, a.Reference = fmt.Sprintf("%s-%d", a.Payment, a.Number), ""
	return a
}

// begun begins an attempt and answers it with its reference.
func (b *bench) begun(a connector.Attempt) connector.Attempt {
	b.Helper()
	s, err := b.connector.Begin(b.context(), a)
	b.must(err)
	b.state(s)
	if s.Phase != connector.Open {
		b.Fatalf("begun, an attempt is %+v", s)
	}
	a.Reference = s.Reference
	return a
}

// paid begins an attempt that the customer pays.
func (b *bench) paid() connector.Attempt {
	b.Helper()
	a := b.begun(b.attempt())
	b.pay(a)
	b.in(a, connector.Paid)
	return a
}

func (b *bench) pay(a connector.Attempt) {
	b.Helper()
	if !b.provider.Pay(a.Reference) {
		b.Fatal("the customer cannot pay")
	}
}

// in reads an attempt and checks its phase.
func (b *bench) in(a connector.Attempt, want connector.Phase) connector.State {
	b.Helper()
	s, err := b.connector.Read(b.context(), a)
	b.must(err)
	b.state(s)
	if s.Phase != want || s.Reference != a.Reference {
		b.Fatalf("read: %+v; want %s of %q", s, want, a.Reference)
	}
	return s
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.clean(err)
		b.Fatal(err)
	}
}

// clean checks that an error holds no secret and nothing of the customer's.
func (b *bench) clean(err error) {
	b.Helper()
	if err == nil {
		return
	}
	for _, secret := range append(b.provider.Secrets(), email) {
		if secret != "" && strings.Contains(err.Error(), secret) {
			b.Errorf("an error holds %q: %v", secret, err)
		}
	}
}

// state checks what holds of every state of an attempt.
func (b *bench) state(s connector.State) {
	b.Helper()
	if s.Reference == "" || len(s.Reference) > domain.MaxReference {
		b.Errorf("the reference has %d bytes: %+v", len(s.Reference), s)
	}
	switch s.Phase {
	case connector.Open:
		if s.HandOff != nil {
			if err := connector.ValidHandOff(*s.HandOff); err != nil {
				b.Error(err)
			}
		}
	case connector.Paid, connector.Closed:
		if s.HandOff != nil {
			b.Errorf("the customer is still sent on: %+v", s)
		}
	default:
		b.Errorf("unknown phase: %+v", s)
	}
	if (s.Phase == connector.Paid) != (s.Amount > 0) || (s.Phase == connector.Paid) != (s.Currency != "") {
		b.Errorf("paid, or an amount, but not both: %+v", s)
	}
	b.reason(s.Phase, s.Reason)
}

func (b *bench) reason(phase connector.Phase, reason string) {
	b.Helper()
	if closed := phase == connector.Closed; closed && reason != connector.ReasonCode(reason) || !closed && reason != "" {
		b.Errorf("%s, with reason %q", phase, reason)
	}
}

// moved checks what a payment has moved at the provider in one direction: its
// whole amount once, or nothing.
func (b *bench) moved(all []Money, a connector.Attempt, want bool) {
	b.Helper()
	n := 0
	for _, m := range all {
		if m.Payment != a.Payment {
			continue
		}
		n++
		if m.Reference != a.Reference || m.Amount != a.Amount || m.Currency != a.Currency {
			b.Errorf("moved at the provider: %+v; want %s %s of %q", m, a.Amount, a.Currency, a.Reference)
		}
	}
	if n != 0 && !want || n != 1 && want {
		b.Errorf("money of %s was moved %d times", a.Payment, n)
	}
}

// another is a reference of the same form that the provider has not given.
func another(reference string) string {
	last := byte('0')
	if strings.HasSuffix(reference, "0") {
		last = '1'
	}
	return reference[:len(reference)-1] + string(last)
}
