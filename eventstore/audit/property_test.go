package audit

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/eventstore"
)

// grow draws a valid log.
func grow(t *rapid.T) *world {
	w := newWorld(t)
	for range rapid.IntRange(1, 25).Draw(t, "steps") {
		w.now = w.now.Add(rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Minute, 70 * time.Minute}).Draw(t, "pause"))
		if len(w.payments) == 0 || rapid.IntRange(0, 3).Draw(t, "new") == 0 {
			if rapid.Bool().Draw(t, "key") {
				w.issueKey()
			}
			w.create(rapid.Bool().Draw(t, "keyed"))
			continue
		}
		id := rapid.SampledFrom(w.payments).Draw(t, "payment")
		reference := fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "reference"))
		switch rapid.IntRange(0, 5).Draw(t, "command") {
		case 0, 1:
			w.route(id)
		case 2:
			w.signal(id, rapid.SampledFrom([]domain.Outcome{"paid", "paid", "failed", "expired"}).Draw(t, "outcome"), reference, nil)
		case 3:
			w.refund(id)
		case 4:
			if refunds := w.states[id].Refunds; len(refunds) > 0 {
				w.signal(id, rapid.SampledFrom([]domain.Outcome{"succeeded", "failed"}).Draw(t, "outcome"), reference, &refunds[len(refunds)-1].ID)
			}
		default:
			w.expire(id)
		}
	}
	return w
}

// TestAnyMutationIsFound draws a valid log and makes one change. A checkpoint of the
// whole log detects any change.
func TestAnyMutationIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := grow(t)
		records := w.records()
		n := len(records)
		checkpoint := w.checkpoint("kept", records)
		if r := w.check(records, checkpoint); !r.OK() || r.Found > 0 || r.Completeness.Outcome != OK {
			t.Fatalf("a clean log: %+v", r)
		}
		bare := slices.Clone(records)
		changed := slices.Clone(records)
		at := rapid.IntRange(0, n-1).Draw(t, "at")
		mutation := rapid.SampledFrom([]string{"flip", "insert byte", "remove byte", "remove", "cut", "duplicate", "swap", "move"}).Draw(t, "mutation")
		if body := changed[at].Body; len(body) > 0 {
			b := rapid.IntRange(0, len(body)-1).Draw(t, "byte")
			changed[at].Body = bytes.Clone(body)
			switch mutation {
			case "flip":
				changed[at].Body[b] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			case "insert byte":
				changed[at].Body = slices.Insert(changed[at].Body, b, ' ')
			case "remove byte":
				changed[at].Body = slices.Delete(changed[at].Body, b, b+1)
			}
		}
		other := rapid.IntRange(0, n-1).Draw(t, "other")
		switch mutation {
		case "remove":
			changed = slices.Delete(changed, at, at+1)
		case "cut":
			changed = changed[:at]
		case "duplicate":
			changed = slices.Insert(changed, other, changed[at])
		case "swap":
			if at == other {
				return
			}
			changed[at], changed[other] = changed[other], changed[at]
		case "move":
			if at == other {
				return
			}
			r := changed[at]
			changed = slices.Insert(slices.Delete(changed, at, at+1), other, r)
		}
		if rapid.Bool().Draw(t, "with care") {
			changed = renumber(slices.Clone(changed))
		}
		r := w.check(changed, checkpoint)
		if r.OK() {
			t.Fatalf("%s at %d is not found", mutation, at+1)
		}
		if mutation == "cut" && r.FirstBad != eventstore.Position(at+1) {
			t.Fatalf("cut behind %d: first bad position %d", at, r.FirstBad)
		}
		if !slices.EqualFunc(bare, w.records(), func(a, b eventstore.Stored) bool { return bytes.Equal(a.Body, b.Body) }) {
			t.Fatal("the check changed the log")
		}
	})
}

// TestPackKeepsWhatRulesLookAt: decisions on a packed payment are the same as on the
// payment itself.
func TestPackKeepsWhatRulesLookAt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := grow(t)
		k := newEncoder()
		for id, p := range w.states {
			h := head{position: 1 << 40, sequence: 7, blind: rapid.Bool().Draw(t, "blind")}
			decoded := k.decode(id, k.encode(&payment{h, h.position, false, p}))
			got, q := decoded.head, decoded.state
			if got != h || q.Status != p.Status || q.ExpiresAt != p.ExpiresAt || q.Route != p.Route || len(q.Refunds) != len(p.Refunds) {
				t.Fatalf("%+v\n%+v", p, q)
			}
			commands := []domain.PaymentCommand{
				domain.AssignRoute{},
				domain.ExpirePayment{At: 1 << 60},
				domain.ExpirePayment{},
				domain.CreateRefund{RefundID: id},
				domain.ApplySignal{Signal: signalled("paid", "new")},
			}
			for _, s := range p.Signals {
				commands = append(commands, domain.ApplySignal{Signal: s})
				s.Amount++
				commands = append(commands, domain.ApplySignal{Signal: s})
			}
			for _, c := range commands {
				a, errA := p.Decide(c)
				b, errB := q.Decide(c)
				if fmt.Sprintf("%T %+v %v", a, a, errA) != fmt.Sprintf("%T %+v %v", b, b, errB) {
					t.Fatalf("%+v: %+v %v, packed %+v %v", c, a, errA, b, errB)
				}
			}
		}
	})
}
