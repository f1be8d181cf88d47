package audit

import (
	"bytes"
	"fmt"
	"testing"

	"payledger/domain"
	"payledger/eventstore"
)

// TestReferencesAreBookedOnce: one reference in two payments is a finding, in a log
// and in its exported lines, unless the events are older than the rule.
func TestReferencesAreBookedOnce(t *testing.T) {
	t.Parallel()
	pays, more := signalled(domain.OutcomePaid, "shared"), signalled(domain.OutcomePaid, "shared")
	more.Amount++
	refusal := domain.PaymentSignalRefused{Reason: domain.ReasonReferenceUsed, Signal: pays}
	funds := domain.PaymentLateFunds{Reason: domain.ReasonWrongAmount, Signal: more}
	bank := pays
	bank.Route = "bank"
	type step struct {
		payment int
		event   domain.Event
		before  bool // recorded in version 1
	}
	for name, c := range map[string]struct {
		steps []step
		want  Kind // of the last one; empty: nothing is found
	}{
		"paid once":                {[]step{{0, domain.PaymentPaid{Signal: pays}, false}}, ""},
		"paid twice":               {[]step{{0, domain.PaymentPaid{Signal: pays}, false}, {1, domain.PaymentPaid{Signal: pays}, false}}, BadClaim},
		"paid, then late funds":    {[]step{{0, domain.PaymentPaid{Signal: pays}, false}, {1, funds, false}}, BadClaim},
		"late funds, then paid":    {[]step{{0, funds, false}, {1, domain.PaymentPaid{Signal: pays}, false}}, BadClaim},
		"paid, then refused":       {[]step{{0, domain.PaymentPaid{Signal: pays}, false}, {1, refusal, false}}, ""},
		"late funds, then refused": {[]step{{0, funds, false}, {1, refusal, false}}, ""},
		"refused for nothing":      {[]step{{1, refusal, false}}, ImpossibleEvent},
		"another route's":          {[]step{{2, domain.PaymentPaid{Signal: bank}, false}, {0, domain.PaymentPaid{Signal: pays}, false}}, ""},
		"twice, before the rule":   {[]step{{0, domain.PaymentPaid{Signal: pays}, true}, {1, domain.PaymentPaid{Signal: pays}, true}}, ""},
		"once before the rule":     {[]step{{0, domain.PaymentPaid{Signal: pays}, true}, {1, domain.PaymentPaid{Signal: pays}, false}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.route(w.create(false))
			w.route(w.create(false))
			elsewhere := w.create(false)
			w.on(elsewhere, domain.AssignRoute{Table: domain.RoutingTable{{Route: "bank", Min: 1, Max: domain.MaxAmount, Weight: 1}}}, w.ids.Next(), nil)
			all := w.records()
			for _, s := range c.steps {
				all = w.forged(all, eventstore.PaymentStream(w.project, w.payments[s.payment]), s.event)
				if s.before {
					r := &all[len(all)-1]
					r.Body, r.Claim = bytes.Replace(r.Body, []byte(`"version":2`), []byte(`"version":1`), 1), nil
				}
			}
			check := func(r *Report) {
				t.Helper()
				switch {
				case c.want == "" && !r.OK():
					t.Errorf("%+v", r.Findings)
				case c.want != "" && (len(r.Findings) != 1 || r.Findings[0].Kind != c.want || r.FirstBad != eventstore.Position(len(all))):
					t.Errorf("want %s, got %+v", c.want, r.Findings)
				}
			}
			check(w.check(all))
			for i := range all {
				all[i].Prev, all[i].Claim = 0, nil
			}
			r, err := Check(t.Context(), listed(all), Options{Codec: w.ledger.Codec, Bare: true})
			if err != nil {
				t.Fatal(err)
			}
			check(r)
		})
	}
}

// TestReferencesRefundOnce: one reference in two refunds is a finding, unless the events
// are older than the rule; its refusal is none.
func TestReferencesRefundOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before bool // recorded in version 1
		refuse bool // the second is
		used   string
		want   Kind
	}{
		"twice":                  {false, false, "shared", BadClaim},
		"twice, before the rule": {true, false, "shared", ""},
		"once and refused":       {false, true, "shared", ""},
		"refused for nothing":    {false, true, "another", ImpossibleEvent},
		"as the payment's":       {false, true, "paid-0", ImpossibleEvent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var back [2]domain.Signal
			for i := range back {
				id := w.create(false)
				w.route(id)
				w.signal(id, domain.OutcomePaid, fmt.Sprint("paid-", i), nil)
				back[i] = signalled(domain.OutcomeSucceeded, "shared")
				back[i].RefundID = new(w.refund(id))
			}
			back[1].Reference = c.used
			events := []domain.Event{domain.RefundSucceededEvent{RefundID: *back[0].RefundID, Signal: back[0]}, domain.RefundSucceededEvent{RefundID: *back[1].RefundID, Signal: back[1]}}
			if c.refuse {
				events[1] = domain.PaymentSignalRefused{Reason: domain.ReasonReferenceUsed, Signal: back[1]}
			}
			all := w.records()
			for i, e := range events {
				all = w.forged(all, eventstore.PaymentStream(w.project, w.payments[i]), e)
				if c.before {
					r := &all[len(all)-1]
					r.Body, r.Claim = bytes.Replace(r.Body, []byte(`"version":2`), []byte(`"version":1`), 1), nil
				}
			}
			switch r := w.check(all); {
			case c.want == "" && !r.OK():
				t.Errorf("%+v", r.Findings)
			case c.want != "" && (len(r.Findings) != 1 || r.Findings[0].Kind != c.want || r.FirstBad != eventstore.Position(len(all))):
				t.Errorf("want %s, got %+v", c.want, r.Findings)
			}
		})
	}
}

// A record without its event's claim would allow a second use of the reference.
func TestClaimsOfReferencesAreThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t).lives()
	for _, change := range []func(*eventstore.Stored){
		func(r *eventstore.Stored) { r.Claim = nil },
		func(r *eventstore.Stored) { r.Claim = &eventstore.Claim{Key: r.Claim.Key} },
		func(r *eventstore.Stored) { r.Claim = &eventstore.Claim{Key: domain.Digest{1}, Forever: true} },
	} {
		all := w.records()
		i := w.at(all, domain.TypePaymentPaid, 0)
		change(&all[i])
		if r := w.check(all); len(r.Findings) != 1 || r.Findings[0].Kind != BadClaim || r.FirstBad != all[i].Position {
			t.Errorf("%+v", r.Findings)
		}
	}
}
