package domain_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
)

func begun(n int) domain.PaymentAttemptBegun {
	return domain.PaymentAttemptBegun{
		Attempt: n, Key: domain.AttemptKey(id(1), n), BegunAt: createdAt + 1000, Language: "ru", Merchant: "Shop",
	}
}

func offered(n int, reference string) domain.PaymentAttemptOffered {
	return domain.PaymentAttemptOffered{Attempt: n, Reference: reference, HandOff: domain.HandOffRedirect}
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	begin := domain.BeginAttempt{At: createdAt + 1000, Language: "ru", Merchant: "Shop"}
	at := func(at domain.Instant) domain.BeginAttempt {
		b := begin
		b.At = at
		return b
	}
	offer := domain.OfferAttempt{Number: 1, Reference: "P", HandOff: domain.HandOffRedirect}
	fail := domain.FailAttempt{Number: 1, Reason: "card_declined"}
	declined := domain.PaymentAttemptFailed{Attempt: 1, Reason: "card_declined"}
	twenty := awaiting()
	for n := 1; n <= domain.MaxAttempts; n++ {
		twenty = append(twenty, begun(n), domain.PaymentAttemptFailed{Attempt: n, Reason: "card_declined"})
	}
	late := begun(1)
	late.BegunAt = expiresAt - 1
	more := func(events []domain.Event, e ...domain.Event) []domain.Event { return append(events, e...) }
	for name, c := range map[string]struct {
		given  []domain.Event
		when   domain.PaymentCommand
		want   domain.Event
		reason string // of an AttemptError
	}{
		"begin":                         {awaiting(), begin, begun(1), ""},
		"begin in the last millisecond": {awaiting(), at(expiresAt - 1), late, ""},
		"begin at the deadline":         {awaiting(), at(expiresAt), nil, domain.AttemptTooLate},
		"begin without a route":         {created(), begin, nil, domain.AttemptNoRoute},
		"begin when paid":               {paid(), begin, nil, domain.AttemptTooLate},
		"begin when expired":            {expired(), begin, nil, domain.AttemptTooLate},
		"begin when failed":             {failed(), begin, nil, domain.AttemptTooLate},
		"begin while one is begun":      {more(awaiting(), begun(1)), begin, nil, ""},
		"begin while one is offered":    {more(awaiting(), begun(1), offered(1, "P")), begin, nil, ""},
		"begin after a failed one":      {more(awaiting(), begun(1), offered(1, "P"), declined), begin, begun(2), ""},
		"begin the twenty-first":        {twenty, begin, nil, domain.AttemptTooMany},

		"offer":                          {more(awaiting(), begun(1)), offer, offered(1, "P"), ""},
		"offer when it has expired":      {more(awaiting(), begun(1), domain.PaymentExpired{Reason: domain.ReasonDeadline}), offer, offered(1, "P"), ""},
		"offer again":                    {more(awaiting(), begun(1), offered(1, "P")), offer, nil, ""},
		"offer another reference":        {more(awaiting(), begun(1), offered(1, "Q")), offer, nil, domain.AttemptConflict},
		"offer the reference of another": {more(awaiting(), begun(1), offered(1, "P"), declined, begun(2)), domain.OfferAttempt{Number: 2, Reference: "P"}, nil, domain.AttemptConflict},
		"offer none":                     {awaiting(), offer, nil, domain.AttemptUnknown},
		"offer a failed one":             {more(awaiting(), begun(1), declined), offer, nil, ""},

		"fail a begun one":              {more(awaiting(), begun(1)), fail, declined, ""},
		"fail an offered one":           {more(awaiting(), begun(1), offered(1, "P")), fail, declined, ""},
		"fail twice":                    {more(awaiting(), begun(1), declined), fail, nil, ""},
		"fail none":                     {awaiting(), fail, nil, domain.AttemptUnknown},
		"abandon what nobody saw":       {more(awaiting(), begun(1)), domain.FailAttempt{Number: 1, Reason: "abandoned"}, domain.PaymentAttemptFailed{Attempt: 1, Reason: "abandoned"}, ""},
		"abandon what a customer sees":  {more(awaiting(), begun(1), offered(1, "P")), domain.FailAttempt{Number: 1, Reason: "abandoned"}, nil, domain.AttemptSeen},
		"fail what has been collected":  {more(awaiting(), begun(1), offered(1, "P"), domain.PaymentPaid{Signal: word("paid", "P")}), fail, nil, ""},
		"fail the one of another route": {more(awaiting(), begun(1), offered(1, "P"), domain.PaymentPaid{Signal: word("paid", "Q")}), fail, declined, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := fold(c.given).Decide(c.when)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			var refused *domain.AttemptError
			if errors.As(err, &refused) != (c.reason != "") || refused != nil && refused.Reason != c.reason || c.reason == "" && err != nil {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestAttemptsTakeNoNonsense(t *testing.T) {
	t.Parallel()
	p := fold(append(awaiting(), begun(1)))
	for _, c := range []domain.PaymentCommand{
		domain.OfferAttempt{Number: 1},
		domain.OfferAttempt{Number: 1, Reference: "a\x00"},
		domain.OfferAttempt{Number: 1, Reference: strings.Repeat("a", domain.MaxReference+1)},
		domain.OfferAttempt{Number: 1, Reference: "P", HandOff: "form"},
		domain.FailAttempt{Number: 1},
		domain.FailAttempt{Number: 1, Reason: "Declined"},
		domain.FailAttempt{Number: 1, Reason: strings.Repeat("a", domain.MaxReason+1)},
	} {
		if e, err := p.Decide(c); e != nil || err == nil {
			t.Errorf("%+v: %+v, %v", c, e, err)
		}
	}
}

// TestExpiryWaitsForAnOpenAttempt: until the provider's last word, or a day.
func TestExpiryWaitsForAnOpenAttempt(t *testing.T) {
	t.Parallel()
	open := fold(append(awaiting(), begun(1), offered(1, "P")))
	last := graceEnd.Add(domain.MaxAttemptWait)
	if got := open.ExpiryDue(); got != last {
		t.Errorf("due %v, want %v", got, last)
	}
	var early *domain.TooEarlyError
	if _, err := open.Decide(domain.ExpirePayment{At: last - 1}); !errors.As(err, &early) || early.Until != last {
		t.Errorf("%v", err)
	}
	if e, err := open.Decide(domain.ExpirePayment{At: last}); e == nil || err != nil {
		t.Errorf("%v, %v", e, err)
	}
	closed := open.Evolve(domain.PaymentAttemptFailed{Attempt: 1, Reason: "cancelled"})
	if got := closed.ExpiryDue(); got != graceEnd {
		t.Errorf("due %v, want %v", got, graceEnd)
	}
}

// TestMoneyClosesItsAttempt, whatever was said of it before.
func TestMoneyClosesItsAttempt(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]domain.Event{
		"paid": domain.PaymentPaid{Signal: word("paid", "P")}, "late funds": domain.PaymentLateFunds{Reason: domain.ReasonPaidTwice, Signal: word("paid", "P")},
	} {
		for _, before := range [][]domain.Event{{begun(1), offered(1, "P")}, {begun(1), offered(1, "P"), domain.PaymentAttemptFailed{Attempt: 1, Reason: "cancelled"}}} {
			p := fold(append(append(awaiting(), before...), e))
			if a, ok := p.AttemptOf("P"); !ok || a.Status != domain.AttemptCollected || p.Uncollected() {
				t.Errorf("%s: %+v", name, a)
			}
		}
	}
}
