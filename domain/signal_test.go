package domain_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
)

func signalled(s domain.Signal) domain.ApplySignal { return domain.ApplySignal{Signal: s} }

func refusedFor(reason string, s domain.Signal) domain.Event {
	return domain.PaymentSignalRefused{Reason: reason, Signal: s}
}

func lateFor(reason string, s domain.Signal) domain.Event {
	return domain.PaymentLateFunds{Reason: reason, Signal: s}
}

func failedBy(s domain.Signal) domain.Event {
	return domain.PaymentFailed{Reason: domain.ReasonProvider, Signal: &s}
}

// TestEveryOutcomeInEveryStatus lists all effects of a well-formed signal, by status
// and outcome.
func TestEveryOutcomeInEveryStatus(t *testing.T) {
	t.Parallel()
	pays, fails, expires := word("paid", "X"), word("failed", "X"), word("expired", "X")
	succeeds, sinks, returns := refundWord("succeeded", "X", id(2)), refundWord("failed", "X", id(2)), refundWord("returned", "X", id(2))
	notFound := &domain.Refusal{Code: domain.PaymentNotFound}
	tooEarly := &domain.TooEarlyError{}
	const final, unknown = domain.ReasonFinalStatus, domain.ReasonUnknownRefund

	var table []decision
	given := func(name string, past []domain.Event, byOutcome map[domain.Outcome]decision, refund map[domain.Outcome]decision) {
		for _, s := range []domain.Signal{pays, fails, expires, succeeds, sinks, returns} {
			rows, kind := byOutcome, "payment"
			if s.RefundID != nil {
				rows, kind = refund, "refund"
			}
			row, ok := rows[s.Outcome]
			if !ok {
				t.Fatalf("no row for %s %s in %s", kind, s.Outcome, name)
			}
			row.name, row.given, row.when = name+", "+kind+" "+string(s.Outcome), past, signalled(s)
			table = append(table, row)
		}
	}
	type rows = map[domain.Outcome]decision
	all := func(err error) rows {
		return rows{"paid": {wantErr: err}, "failed": {wantErr: err}, "expired": {wantErr: err}, "succeeded": {wantErr: err}, "returned": {wantErr: err}}
	}
	noRefund := rows{
		"succeeded": {want: refusedFor(unknown, succeeds)}, "failed": {want: refusedFor(unknown, sinks)},
		"returned": {want: refusedFor(unknown, returns)},
	}
	oldRefund := rows{
		"succeeded": {want: refusedFor(final, succeeds)}, "failed": {want: refusedFor(final, sinks)},
		"returned": {want: refusedFor(final, returns)},
	}
	stays := func(reason string) rows {
		return rows{
			"paid": {want: lateFor(reason, pays)}, "failed": {want: refusedFor(final, fails)},
			"expired": {want: refusedFor(final, expires)},
		}
	}
	given("missing", missing(), all(notFound), all(notFound))
	given("created", created(), all(tooEarly), all(tooEarly))
	given("awaiting", awaiting(), rows{
		"paid":    {want: domain.PaymentPaid{Signal: pays}},
		"failed":  {want: domain.PaymentFailed{Reason: domain.ReasonProvider, Signal: &fails}},
		"expired": {want: domain.PaymentExpired{Reason: domain.ReasonProvider, Signal: &expires}},
	}, noRefund)
	given("paid", paid(), stays(domain.ReasonPaidTwice), noRefund)
	given("expired", expired(), stays(domain.ReasonAfterExpired), noRefund)
	given("failed", failed(), stays(domain.ReasonAfterFailed), noRefund)
	given("refund pending", refunding(), stays(domain.ReasonPaidTwice), rows{
		"succeeded": {want: domain.RefundSucceededEvent{RefundID: id(2), Signal: succeeds}},
		"failed":    {want: domain.RefundFailedEvent{RefundID: id(2), Signal: sinks}},
		// Its arrival was not heard of, and will be refused.
		"returned": {want: domain.RefundFailedEvent{RefundID: id(2), Signal: returns}},
	})
	given("refund succeeded", refunded(), stays(domain.ReasonPaidTwice), rows{
		"succeeded": oldRefund["succeeded"], "failed": oldRefund["failed"],
		"returned": {want: domain.RefundReturned{RefundID: id(2), Signal: returns}},
	})
	given("refund came back", cameBack(), stays(domain.ReasonPaidTwice), oldRefund)
	given("refund failed", unrefunded(), stays(domain.ReasonPaidTwice), oldRefund)
	given("no route was found", unroutable(), rows{
		"paid":    {want: refusedFor(domain.ReasonWrongRoute, pays)},
		"failed":  {want: refusedFor(domain.ReasonWrongRoute, fails)},
		"expired": {want: refusedFor(domain.ReasonWrongRoute, expires)},
	}, rows{
		"succeeded": {want: refusedFor(domain.ReasonWrongRoute, succeeds)},
		"failed":    {want: refusedFor(domain.ReasonWrongRoute, sinks)},
		"returned":  {want: refusedFor(domain.ReasonWrongRoute, returns)},
	})
	runDecisions(t, table)
}

func TestSignalsThatDoNotFit(t *testing.T) {
	t.Parallel()
	otherRoute := func(s *domain.Signal) { s.Route = "bank" }
	otherAmount := func(s *domain.Signal) { s.Amount-- }
	otherCurrency := func(s *domain.Signal) { s.Currency = "EUR" }
	pays := word("paid", "X")
	row := func(name string, past []domain.Event, s domain.Signal, want func(string, domain.Signal) domain.Event, reason string) decision {
		return decision{name: name, given: past, when: signalled(s), want: want(reason, s)}
	}
	started := func(at domain.Instant) domain.Signal {
		return with(pays, func(s *domain.Signal) { s.StartedAt = at })
	}
	runDecisions(t, []decision{
		row("another route pays", awaiting(), with(pays, otherRoute), refusedFor, domain.ReasonWrongRoute),
		row("another route fails", awaiting(), with(word("failed", "X"), otherRoute), refusedFor, domain.ReasonWrongRoute),
		row("another route after the end", paid(), with(pays, otherRoute), refusedFor, domain.ReasonWrongRoute),
		row("another route under a known reference", paid(), with(word("paid", "P"), otherRoute), refusedFor, domain.ReasonWrongRoute),
		row("another route refunds", refunding(), with(refundWord("succeeded", "X", id(2)), otherRoute), refusedFor, domain.ReasonWrongRoute),

		row("less money", awaiting(), with(pays, otherAmount), lateFor, domain.ReasonWrongAmount),
		row("other money", awaiting(), with(pays, otherCurrency), lateFor, domain.ReasonWrongAmount),
		row("less money after expiry", expired(), with(pays, otherAmount), lateFor, domain.ReasonWrongAmount),
		row("less money that started late", awaiting(), with(started(graceEnd), otherAmount), lateFor, domain.ReasonWrongAmount),
		row("failure of another sum", awaiting(), with(word("failed", "X"), otherAmount), refusedFor, domain.ReasonWrongAmount),
		row("expiry of another sum", awaiting(), with(word("expired", "X"), otherCurrency), refusedFor, domain.ReasonWrongAmount),
		row("refund of less", refunding(), with(refundWord("succeeded", "X", id(2)), otherAmount), refusedFor, domain.ReasonWrongAmount),
		row("refund of other money", refunding(), with(refundWord("failed", "X", id(2)), otherCurrency), refusedFor, domain.ReasonWrongAmount),
		row("refund that nobody asked for", refunding(), refundWord("succeeded", "X", id(9)), refusedFor, domain.ReasonUnknownRefund),

		row("begun a second before the payment", awaiting(), started(createdAt-1000), refusedFor, domain.ReasonStartedEarly),
		row("begun years before the payment", awaiting(), started(1), refusedFor, domain.ReasonStartedEarly),
		row("begun in the last second before the payment's own", awaiting(), started(createdAt-createdAt%1000-1), refusedFor, domain.ReasonStartedEarly),
		{
			name: "begun in the payment's own second, told without its milliseconds", given: awaiting(),
			when: signalled(started(createdAt - createdAt%1000)), want: domain.PaymentPaid{Signal: started(createdAt - createdAt%1000)},
		},
		row("less money, begun before the payment", awaiting(), with(started(createdAt-1000), otherAmount), refusedFor, domain.ReasonStartedEarly),
		row("begun before the payment, come after expiry", expired(), started(createdAt-1000), refusedFor, domain.ReasonStartedEarly),
		row("begun before the payment, paid already", paid(), started(createdAt-1000), refusedFor, domain.ReasonStartedEarly),
		row("a failure begun before the payment", awaiting(), with(started(createdAt-1000), func(s *domain.Signal) { s.Outcome = "failed" }), refusedFor, domain.ReasonStartedEarly),
		{
			name: "a failure that does not say when it began", given: awaiting(),
			when: signalled(with(word("failed", "X"), func(s *domain.Signal) { s.StartedAt = 0 })),
			want: failedBy(with(word("failed", "X"), func(s *domain.Signal) { s.StartedAt = 0 })),
		},

		{name: "begun 1 ms in time", given: awaiting(), when: signalled(started(expiresAt - 1)), want: domain.PaymentPaid{Signal: started(expiresAt - 1)}},
		{name: "begun just in time", given: awaiting(), when: signalled(started(expiresAt)), want: domain.PaymentPaid{Signal: started(expiresAt)}},
		row("begun 1 ms late", awaiting(), started(expiresAt+1), lateFor, domain.ReasonStartedLate),
		row("begun in time, come after expiry", expired(), started(createdAt), lateFor, domain.ReasonAfterExpired),

		row("unheard-of outcome", awaiting(), word("succeeded", "X"), refusedFor, domain.ReasonFinalStatus),
		row("unheard-of outcome of a refund", refunding(), refundWord("paid", "X", id(2)), refusedFor, domain.ReasonFinalStatus),
	})
}

// TestReferences: a signal with the same reference and outcome counts once, however
// often it comes.
func TestReferences(t *testing.T) {
	t.Parallel()
	less := func(s *domain.Signal) { s.Amount-- }
	later := func(s *domain.Signal) { s.StartedAt++ }
	otherRoute := func(s *domain.Signal) { s.Route = "bank" }
	late := with(word("paid", "L"), less)
	strange := with(word("paid", "S"), otherRoute)
	past := append(awaiting(), domain.PaymentLateFunds{Reason: domain.ReasonWrongAmount, Signal: late},
		domain.PaymentSignalRefused{Reason: domain.ReasonWrongRoute, Signal: strange})
	conflict := func(name string, past []domain.Event, s domain.Signal) decision {
		return decision{name: name, given: past, when: signalled(s), want: refusedFor(domain.ReasonReferenceConflict, s)}
	}
	row := func(name string, past []domain.Event, s domain.Signal, want domain.Event) decision {
		return decision{name: name, given: past, when: signalled(s), want: want}
	}
	early := with(word("paid", "E"), func(s *domain.Signal) { s.StartedAt = createdAt - 1000 })
	began := append(awaiting(), refusedFor(domain.ReasonStartedEarly, early))
	elsewhere := with(word("paid", "E"), func(s *domain.Signal) { s.Route = "elsewhere" })
	earlyElsewhere := with(elsewhere, func(s *domain.Signal) { s.StartedAt = early.StartedAt })
	refusedElsewhere := append(awaiting(), refusedFor(domain.ReasonWrongRoute, elsewhere))
	sent := refundWord("succeeded", "R", id(2))
	wrong := func(past []domain.Event, s domain.Signal) []domain.Event {
		return append(past, refusedFor(domain.ReasonWrongAmount, with(s, func(s *domain.Signal) { s.Amount *= 100 })))
	}
	runDecisions(t, []decision{
		{name: "paid again", given: paid(), when: signalled(word("paid", "P"))},
		{name: "paid again, with another start", given: paid(), when: signalled(with(word("paid", "P"), later))},
		{name: "failed again", given: failed(), when: signalled(word("failed", "F"))},
		{name: "late funds again", given: past, when: signalled(late)},
		{name: "refused again", given: past, when: signalled(strange)},
		{name: "refund settled again", given: refunded(), when: signalled(refundWord("succeeded", "R", id(2)))},
		{name: "refund came back again", given: cameBack(), when: signalled(refundWord("returned", "R", id(2)))},
		{name: "refund failed again", given: unrefunded(), when: signalled(refundWord("failed", "R", id(2)))},

		conflict("paid again with less", paid(), with(word("paid", "P"), less)),
		conflict("late funds, then the right sum under their reference", past, word("paid", "L")),
		conflict("refund came back again with less", cameBack(), with(refundWord("returned", "R", id(2)), less)),
		conflict("refund settled again with less", refunded(), with(refundWord("succeeded", "R", id(2)), less)),

		row("refused for its route, then with an early start", refusedElsewhere, earlyElsewhere, refusedFor(domain.ReasonWrongRoute, earlyElsewhere)),
		{name: "and each of them again", given: append(refusedElsewhere, refusedFor(domain.ReasonWrongRoute, earlyElsewhere)), when: signalled(elsewhere)},
		{name: "refused for its start again", given: began, when: signalled(early)},
		{name: "refused for its start, with an earlier one", given: began, when: signalled(with(early, func(s *domain.Signal) { s.StartedAt -= 1000 }))},
		{name: "refused for its start after it was corrected", given: append(began, domain.PaymentPaid{Signal: word("paid", "E")}), when: signalled(early)},
		row("refused for its start, then with the right one", began, word("paid", "E"), domain.PaymentPaid{Signal: word("paid", "E")}),
		row("refused for its sum, then with the right one", wrong(awaiting(), word("failed", "X")), word("failed", "X"), failedBy(word("failed", "X"))),
		row("a refund refused for its sum, then with the right one", wrong(refunding(), sent), sent, domain.RefundSucceededEvent{RefundID: id(2), Signal: sent}),
		row("a refund refused for its sum, then with another wrong one", wrong(refunding(), sent), with(sent, func(s *domain.Signal) { s.Amount-- }),
			refusedFor(domain.ReasonWrongAmount, with(sent, func(s *domain.Signal) { s.Amount-- }))),
		conflict("a refund refused for its sum, settled, then with another", append(wrong(refunding(), sent), domain.RefundSucceededEvent{RefundID: id(2), Signal: sent}),
			with(sent, func(s *domain.Signal) { s.Amount-- })),
		row("a dispute refused for its sum, then with the right one", wrong(paid(), dispute("disputed")), dispute("disputed"), domain.PaymentDisputed{Signal: dispute("disputed")}),

		{
			name: "the reference of a refused route does not bind the right one", given: past,
			when: signalled(word("paid", "S")), want: domain.PaymentPaid{Signal: word("paid", "S")},
		},
		{
			name: "a failure's reference pays", given: failed(), when: signalled(word("paid", "F")),
			want: lateFor(domain.ReasonAfterFailed, word("paid", "F")),
		},
		{
			name: "a payment's reference fails", given: paid(), when: signalled(word("failed", "P")),
			want: refusedFor(domain.ReasonFinalStatus, word("failed", "P")),
		},
		{
			name: "a payment's reference refunds", given: refunding(), when: signalled(refundWord("succeeded", "P", id(2))),
			want: domain.RefundSucceededEvent{RefundID: id(2), Signal: refundWord("succeeded", "P", id(2))},
		},
		{
			name: "the failed refund's reference on the second refund", given: append(unrefunded(), refundCreated(3)),
			when: signalled(refundWord("failed", "R", id(3))),
			want: domain.RefundFailedEvent{RefundID: id(3), Signal: refundWord("failed", "R", id(3))},
		},
	})
}

// TestRefusalsOfBefore: up to version 3 a refused signal took its reference.
func TestRefusalsOfBefore(t *testing.T) {
	t.Parallel()
	sent := refundWord("succeeded", "R", id(2))
	p := fold(append(refunding(), refusedFor(domain.ReasonWrongAmount, with(sent, func(s *domain.Signal) { s.Amount *= 100 }))))
	e := refusedFor(domain.ReasonReferenceConflict, sent)
	if err := p.Redecide(e, domain.Recorded{Version: 3}); err != nil {
		t.Error(err)
	}
	if err := p.Redecide(e, domain.Recorded{Version: 4}); err == nil {
		t.Error("a refusal that the rule of now does not lead to is taken")
	}
}

func TestValidateSignal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		signal domain.Signal
		want   domain.FieldErrors
	}{
		"paid":             {signal: word("paid", "X")},
		"failed":           {signal: word("failed", "X")},
		"expired":          {signal: word("expired", "X")},
		"refund succeeded": {signal: refundWord("succeeded", "X", id(2))},
		"refund failed":    {signal: refundWord("failed", "X", id(2))},
		"refund came back": {signal: refundWord("returned", "X", id(2))},
		"disputed":         {signal: with(word("disputed", "X"), func(s *domain.Signal) { s.StartedAt = 0 })},
		"dispute won":      {signal: word("dispute_won", "X")},
		"dispute lost":     {signal: word("dispute_lost", "X")},
		"refund disputed": {
			signal: refundWord("disputed", "X", id(2)), want: domain.FieldErrors{{Field: "outcome", Code: domain.InvalidValue}},
		},
		"longest reference": {
			signal: word("paid", strings.Repeat("x", domain.MaxReference)),
		},
		"failed without a start": {
			signal: with(word("failed", "X"), func(s *domain.Signal) { s.StartedAt = 0 }),
		},
		"paid without a start": {
			signal: with(word("paid", "X"), func(s *domain.Signal) { s.StartedAt = 0 }),
			want:   domain.FieldErrors{{Field: "started_at", Code: domain.Required}},
		},
		"no route": {
			signal: with(word("paid", "X"), func(s *domain.Signal) { s.Route = "" }),
			want:   domain.FieldErrors{{Field: "route", Code: domain.InvalidValue}},
		},
		"payment succeeded": {
			signal: word("succeeded", "X"), want: domain.FieldErrors{{Field: "outcome", Code: domain.InvalidValue}},
		},
		"payment returned": {
			signal: word("returned", "X"), want: domain.FieldErrors{{Field: "outcome", Code: domain.InvalidValue}},
		},
		"refund paid": {
			signal: refundWord("paid", "X", id(2)), want: domain.FieldErrors{{Field: "outcome", Code: domain.InvalidValue}},
		},
		"refund expired": {
			signal: refundWord("expired", "X", id(2)), want: domain.FieldErrors{{Field: "outcome", Code: domain.InvalidValue}},
		},
		"upper case": {
			signal: word("PAID", "X"), want: domain.FieldErrors{{Field: "outcome", Code: domain.InvalidValue}},
		},
		"long reference": {
			signal: word("paid", strings.Repeat("x", domain.MaxReference+1)),
			want:   domain.FieldErrors{{Field: "reference", Code: domain.TooLong, Limit: 128, Got: 129}},
		},
		"control character": {
			signal: word("paid", "a\x00"), want: domain.FieldErrors{{Field: "reference", Code: domain.ControlCharacter}},
		},
		"too much": {
			signal: with(word("paid", "X"), func(s *domain.Signal) { s.Amount = domain.MaxAmount + 1 }),
			want:   domain.FieldErrors{{Field: "amount", Code: domain.Required}},
		},
		"small currency": {
			signal: with(word("paid", "X"), func(s *domain.Signal) { s.Currency = "rub" }),
			want:   domain.FieldErrors{{Field: "currency", Code: domain.InvalidValue}},
		},
		"long currency": {
			signal: with(word("paid", "X"), func(s *domain.Signal) { s.Currency = "RUBLES" }),
			want:   domain.FieldErrors{{Field: "currency", Code: domain.InvalidValue}},
		},
		"currency without minor digits": {signal: with(word("paid", "X"), func(s *domain.Signal) { s.Currency = "JPY" })},
		"nothing": {
			want: domain.FieldErrors{
				{Field: "route", Code: domain.InvalidValue},
				{Field: "outcome", Code: domain.Required},
				{Field: "reference", Code: domain.Required},
				{Field: "amount", Code: domain.Required},
				{Field: "currency", Code: domain.Required},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want error
			if tt.want != nil {
				want = tt.want
			}
			if diff := cmp.Diff(want, tt.signal.Validate()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
