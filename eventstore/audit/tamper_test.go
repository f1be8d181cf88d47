package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/memory"
)

// renumber gives the records positions from 1 and links them anew, as somebody
// would who tampers with care.
func renumber(records []eventstore.Stored) []eventstore.Stored {
	heads := make(map[eventstore.Stream]eventstore.Position)
	for i := range records {
		r := &records[i]
		r.Position, r.Prev = eventstore.Position(i+1), heads[r.Stream]
		heads[r.Stream] = r.Position
	}
	return records
}

// forge puts another event in the record's place, encoded as the program
// would.
func (w *world) forge(r eventstore.Stored, e domain.Event) eventstore.Stored {
	w.t.Helper()
	body, err := w.ledger.Codec.Encode(r.Stream, r.Sequence, r.Commit, e)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	r.Body = body
	return r
}

// add appends a forged event of a payment.
func (w *world) forged(all []eventstore.Stored, s eventstore.Stream, e domain.Event) []eventstore.Stored {
	w.t.Helper()
	r := eventstore.Stored{Position: eventstore.Position(len(all) + 1), Stream: s, Sequence: 1, Commit: w.ids.Next()}
	for _, o := range all {
		if o.Stream == s {
			r.Prev, r.Sequence = o.Position, o.Sequence+1
		}
	}
	return append(all, w.forge(r, e))
}

// at finds the n-th record of a type, from 0.
func (w *world) at(all []eventstore.Stored, typ string, n int) int {
	w.t.Helper()
	for i, r := range all {
		if bytes.Contains(r.Body, []byte(`"type":"`+typ+`"`)) {
			if n == 0 {
				return i
			}
			n--
		}
	}
	w.t.Fatalf("no %s", typ)
	return 0
}

func signalled(outcome domain.Outcome, reference string) domain.Signal {
	return domain.Signal{
		Route: domain.SandboxRoute, Outcome: outcome, Reference: reference, Amount: 150000, Currency: "RUB", StartedAt: 1_795_169_730_123,
	}
}

// TestTampering finds each fault, of the right kind, at the right position,
// without a checkpoint.
func TestTampering(t *testing.T) {
	t.Parallel()
	type records = []eventstore.Stored
	// change returns the changed log and the index of the first bad record.
	for name, c := range map[string]struct {
		want   Kind
		change func(w *world, all records) (records, int)
	}{
		"removed": {Gap, func(_ *world, all records) (records, int) {
			return slices.Delete(all, 4, 5), 4
		}},
		"removed and renumbered": {BrokenStream, func(w *world, all records) (records, int) {
			i := w.at(all, domain.TypePaymentRouteAssigned, 0)
			all = renumber(slices.Delete(all, i, i+1))
			return all, w.at(all, domain.TypePaymentPaid, 0)
		}},
		"swapped": {Gap, func(_ *world, all records) (records, int) {
			all[4], all[5] = all[5], all[4]
			return all, 4
		}},
		"swapped within a stream and renumbered": {BrokenStream, func(w *world, all records) (records, int) {
			i := w.at(all, domain.TypeKeyIssued, 0)
			all[i], all[i+1] = all[i+1], all[i]
			return renumber(all), i
		}},
		"duplicated": {WrongPosition, func(_ *world, all records) (records, int) {
			return slices.Insert(all, 6, all[5]), 5
		}},
		"duplicated and renumbered": {BadEventID, func(_ *world, all records) (records, int) {
			return renumber(slices.Insert(all, 6, all[5])), 6
		}},
		"reordered": {WrongPosition, func(_ *world, all records) (records, int) {
			return append(all[10:], all[:10]...), 0
		}},
		"wrong prev": {BrokenStream, func(_ *world, all records) (records, int) {
			all[3].Prev--
			return all, 3
		}},
		"wrong sequence in the record": {BadEvent, func(_ *world, all records) (records, int) {
			all[3].Sequence++
			return all, 3
		}},
		"wrong sequence in both": {BrokenStream, func(_ *world, all records) (records, int) {
			all[3].Sequence++
			all[3].Body = bytes.Replace(all[3].Body, []byte(`"sequence":4`), []byte(`"sequence":5`), 1)
			return all, 3
		}},
		"the body of another record": {BadEvent, func(_ *world, all records) (records, int) {
			all[2].Body = all[1].Body
			return all, 2
		}},
		"not JSON": {BadEvent, func(_ *world, all records) (records, int) {
			all[2].Body = all[2].Body[:len(all[2].Body)-1]
			return all, 2
		}},
		"of a newer program": {BadEvent, func(_ *world, all records) (records, int) {
			all[2].Body = bytes.Replace(all[2].Body, []byte(`"version":1`), []byte(`"version":2`), 1)
			return all, 2
		}},
		"an unknown member": {BadEvent, func(_ *world, all records) (records, int) {
			all[2].Body = bytes.Replace(all[2].Body, []byte(`"data":{`), []byte(`"data":{"colour":"red",`), 1)
			return all, 2
		}},
		"another time": {BadEvent, func(_ *world, all records) (records, int) {
			all[2].Body = bytes.Replace(all[2].Body, []byte(`"at":"2026-`), []byte(`"at":"2025-`), 1)
			return all, 2
		}},
		"claim twice": {BadClaim, func(w *world, all records) (records, int) {
			first, i := w.at(all, domain.TypePaymentCreated, 0), w.at(all, domain.TypePaymentCreated, 3)
			e, err := w.ledger.Codec.Decode(all[i])
			if err != nil {
				w.t.Fatalf("%v", err)
			}
			created := e.(domain.PaymentCreated) //nolint:forcetypeassert // looked for by type
			claim := *all[first].Claim
			created.Idempotency = &domain.Idempotency{Key: claim.Key, Fingerprint: claim.Fingerprint}
			all[i] = w.forge(all[i], created)
			all[i].Claim = &claim
			return all, i
		}},
		"claim in the record only": {BadClaim, func(w *world, all records) (records, int) {
			i := w.at(all, domain.TypePaymentCreated, 1)
			all[i].Claim = &eventstore.Claim{Key: domain.Digest{1}}
			return all, i
		}},
		"another claim in the record": {BadClaim, func(w *world, all records) (records, int) {
			i := w.at(all, domain.TypePaymentCreated, 0)
			all[i].Claim = &eventstore.Claim{Key: domain.Digest{1}, Fingerprint: all[i].Claim.Fingerprint}
			return all, i
		}},
		"an id from the day before yesterday": {BadEventID, func(w *world, all records) (records, int) {
			old := domain.NewIDs(func() time.Time { return w.now.Add(-48 * time.Hour) }, bytes.NewReader(make([]byte, 1000)), domain.ID{})
			i := len(all) - 1
			all[i].Commit = old.Next()
			all[i] = w.forge(all[i], domain.ProjectDisabled{})
			return all, i
		}},
		"an unknown kind of stream": {BrokenStream, func(w *world, all records) (records, int) {
			return w.forged(all, eventstore.Stream{Project: w.project, Kind: "ledger", ID: "x"}, domain.ProjectDisabled{}), len(all)
		}},
		"a payment under another project": {BrokenStream, func(w *world, all records) (records, int) {
			s := eventstore.PaymentStream("prj_other", w.payments[0])
			return w.forged(all, s, domain.PaymentRouteAssigned{Route: "sandbox"}), len(all)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).lives()
			changed, i := c.change(w, w.records())
			r := w.check(changed)
			if r.OK() || !slices.Contains(kinds(r), c.want) {
				t.Fatalf("want %s, got %+v", c.want, r.Findings)
			}
			if r.FirstBad != eventstore.Position(i+1) {
				t.Errorf("first bad position %d, want %d: %v", r.FirstBad, i+1, r.Findings)
			}
		})
	}
}

// TestImpossibleEvents forges events that decode and stand in order, but that
// no command leads to.
func TestImpossibleEvents(t *testing.T) {
	t.Parallel()
	id := domain.ID{1, 160, 112, 116, 98, 90, 26, 100, 54, 67, 17, 187, 4, 24, 14, 3}
	refundSignal := func(o domain.Outcome, reference string) domain.Signal {
		s := signalled(o, reference)
		s.RefundID = &id
		return s
	}
	const paid, waiting, unrouted = 0, 1, 2 // of w.payments
	for name, c := range map[string]struct {
		payment int // -1: the project; -2: a new payment
		event   func(w *world) domain.Event
		why     string
	}{
		"paid before it was routed": {-3, func(*world) domain.Event { return domain.PaymentPaid{Signal: signalled(domain.OutcomePaid, "x")} }, "no route"},
		"paid after it failed":      {unrouted, func(*world) domain.Event { return domain.PaymentPaid{Signal: signalled(domain.OutcomePaid, "x")} }, "refused"},
		"paid twice":                {paid, func(*world) domain.Event { return domain.PaymentPaid{Signal: signalled(domain.OutcomePaid, "x")} }, "late_funds"},
		"the same signal again": {paid, func(*world) domain.Event {
			return domain.PaymentLateFunds{Reason: "paid_twice", Signal: signalled(domain.OutcomePaid, "b")}
		}, "nothing left to do"},
		"another reason": {paid, func(*world) domain.Event {
			return domain.PaymentLateFunds{Reason: "after_failed", Signal: signalled(domain.OutcomePaid, "x")}
		}, "members"},
		"failed after it was paid": {paid, func(*world) domain.Event {
			return domain.PaymentFailed{Reason: "provider", Signal: new(signalled(domain.OutcomeFailed, "x"))}
		}, "signal_refused"},
		"no route after it was paid":    {paid, func(*world) domain.Event { return domain.PaymentFailed{Reason: "no_route"} }, "nothing left to do"},
		"expired after it was paid":     {paid, func(*world) domain.Event { return domain.PaymentExpired{Reason: "deadline"} }, "nothing left to do"},
		"expired before its time":       {-3, func(*world) domain.Event { return domain.PaymentExpired{Reason: "deadline"} }, "too early"},
		"routed twice":                  {waiting, func(*world) domain.Event { return domain.PaymentRouteAssigned{Route: "acme"} }, "nothing left to do"},
		"a route that is no name":       {-3, func(*world) domain.Event { return domain.PaymentRouteAssigned{Route: "A B"} }, "route"},
		"created twice":                 {paid, func(w *world) domain.Event { return w.created(domain.IDTime(w.payments[0])) }, "created before"},
		"not created":                   {-2, func(*world) domain.Event { return domain.PaymentRouteAssigned{Route: "sandbox"} }, "not created"},
		"created at another time":       {-2, func(*world) domain.Event { return (*world)(nil).created(1_795_169_730_123) }, "recorded at"},
		"a second refund":               {paid, func(w *world) domain.Event { return w.refunded(150000) }, "refund_exists"},
		"a refund of an unpaid payment": {unrouted, func(w *world) domain.Event { return w.refunded(150000) }, "payment_not_paid"},
		"an unknown refund": {paid, func(*world) domain.Event {
			return domain.RefundSucceededEvent{RefundID: id, Signal: refundSignal("succeeded", "x")}
		}, "signal_refused"},
		"a signal of no form": {paid, func(*world) domain.Event {
			return domain.PaymentLateFunds{Reason: "paid_twice", Signal: domain.Signal{Route: "sandbox", Outcome: "won", Amount: 1, Currency: "RUB"}}
		}, "invalid_value"},
		"a project's event": {paid, func(*world) domain.Event { return domain.ProjectDisabled{} }, "no event of a payment"},
		"a payment's event": {-1, func(*world) domain.Event { return domain.PaymentRouteAssigned{Route: "sandbox"} }, "no event of a project"},
		"registered twice":  {-1, func(w *world) domain.Event { return domain.ProjectRegistered{Name: "x", Settings: w.settings} }, "registered before"},
		"changed to nothing": {-1, func(*world) domain.Event {
			return domain.ProjectChanged{Name: "x", Settings: domain.Settings{MaxAmount: 1}}
		}, "required"},
		"disabled twice":         {-1, func(*world) domain.Event { return domain.ProjectDisabled{} }, "nothing left to do"},
		"a key issued twice":     {-1, func(*world) domain.Event { return domain.KeyIssued{KeyID: "key_1", Scopes: domain.AllScopes()} }, "internal_error"},
		"an unknown key revoked": {-1, func(*world) domain.Event { return domain.KeyRevoked{KeyID: "key_9"} }, "key_not_found"},
		"a key revoked twice":    {-1, func(*world) domain.Event { return domain.KeyRevoked{KeyID: "key_1"} }, "nothing left to do"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).lives()
			stream := eventstore.ProjectStream(w.project)
			switch c.payment {
			case -1:
			case -2:
				stream = eventstore.PaymentStream(w.project, w.ids.Next())
			case -3: // one that was just created
				stream = eventstore.PaymentStream(w.project, w.create(false))
			default:
				stream = eventstore.PaymentStream(w.project, w.payments[c.payment])
			}
			all := w.forged(w.records(), stream, c.event(w))
			r := w.check(all)
			if len(r.Findings) != 1 || r.Findings[0].Kind != ImpossibleEvent || r.FirstBad != eventstore.Position(len(all)) {
				t.Fatalf("%+v", r.Findings)
			}
			if !strings.Contains(r.Findings[0].Detail, c.why) {
				t.Errorf("%q does not tell %q", r.Findings[0].Detail, c.why)
			}
		})
	}
}

func (*world) created(at domain.Instant) domain.Event {
	return domain.PaymentCreated{
		CreatedAt: at, ExpiresAt: at.Add(time.Hour), Amount: 1, Currency: "RUB", Payload: domain.EmptyObject(),
	}
}

func (w *world) refunded(a domain.Amount) domain.Event {
	id, _ := w.ids.Pair()
	return domain.RefundCreated{RefundID: id, CreatedAt: domain.IDTime(id), Amount: a, Currency: "RUB"}
}

// TestEveryEventHasARule makes sure that no event is taken for impossible only
// because nobody wrote down where it comes from.
func TestEveryEventHasARule(t *testing.T) {
	t.Parallel()
	for _, typ := range domain.Events() {
		payment := explainPayment(domain.Payment{}, typ.Sample, 0)
		project := explainProject(domain.Project{}, typ.Sample)
		if _, ok := typ.Sample.(domain.PaymentEvent); ok && payment != nil && strings.Contains(payment.Error(), "no event of a payment") {
			t.Errorf("%s: no case in explainPayment", typ.Name)
		}
		if _, ok := typ.Sample.(domain.ProjectEvent); ok && project != nil && strings.Contains(project.Error(), "no event of a project") {
			t.Errorf("%s: no case in explainProject", typ.Name)
		}
	}
}

// TestEveryByte flips each byte of a body. Whatever still decodes to an event
// that the rules lead to is found by the tree, and by nothing else.
func TestEveryByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t).lives()
	records := w.records()
	checkpoint := w.checkpoint("kept", records)
	i := w.at(records, domain.TypePaymentCreated, 0)
	byTree := 0
	for b := range records[i].Body {
		changed := slices.Clone(records)
		changed[i].Body = bytes.Clone(changed[i].Body)
		changed[i].Body[b] ^= 1
		r := w.check(changed, checkpoint)
		if r.OK() || !slices.Contains(kinds(r), WrongRoot) {
			t.Fatalf("byte %d: %+v", b, r)
		}
		if without := w.check(changed); without.OK() {
			byTree++
		} else if at := without.FirstBad; at != eventstore.Position(i+1) && (kinds(without)[0] != ImpossibleEvent || at < eventstore.Position(i+1)) {
			// Another amount, say, is possible, but not with what follows.
			t.Errorf("byte %d: first bad position %d, want %d: %v", b, at, i+1, without.Findings)
		}
	}
	if byTree == 0 || byTree == len(records[i].Body) {
		t.Errorf("%d of %d flips are found by the tree alone", byTree, len(records[i].Body))
	}
}

func TestCheckpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t).lives()
	records := w.records()
	n := len(records)
	kept, old := w.checkpoint("kept", records), w.checkpoint("old", records[:6])

	t.Run("truncated", func(t *testing.T) {
		t.Parallel()
		r := w.check(records[:n-2], old, kept)
		if r.Completeness.Outcome != Failed || r.Integrity.Outcome != OK || r.FirstBad != eventstore.Position(n-1) ||
			!slices.Equal(kinds(r), []Kind{Truncated}) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("truncated without checkpoint", func(t *testing.T) {
		t.Parallel()
		r := w.check(records[:n-2])
		if r.Completeness.Outcome != NotChecked || !r.OK() {
			t.Errorf("%+v", r)
		}
	})
	t.Run("beside the log", func(t *testing.T) {
		t.Parallel()
		c := old
		c.Beside = true
		r := w.check(records, c)
		if r.Completeness.Outcome != OK || !strings.Contains(r.Completeness.Reason, "kept elsewhere") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a fork", func(t *testing.T) {
		t.Parallel()
		fork := slices.Clone(records)
		i := w.at(fork, domain.TypePaymentCreated, 3)
		fork[i].Body = bytes.Replace(fork[i].Body, []byte("order-3"), []byte("order-4"), 1)
		r := w.check(fork, old, kept)
		if len(r.Findings) != 1 || r.Findings[0].Kind != WrongRoot || r.Findings[0].Position != 7 || r.Findings[0].Through != eventstore.Position(n) {
			t.Errorf("%+v", r.Findings)
		}
	})
	t.Run("an older one from a fork", func(t *testing.T) {
		t.Parallel()
		other := newWorld(t).lives()
		other.signer = w.signer
		r := w.check(records, other.checkpoint("fork", other.records()[:6]), kept)
		if len(r.Findings) != 1 || r.Findings[0].Kind != WrongRoot || r.Findings[0].Through != 6 || r.Checkpoints[1].Outcome != OK {
			t.Errorf("%+v", r)
		}
	})
	t.Run("altered", func(t *testing.T) {
		t.Parallel()
		c := kept
		c.Signed = bytes.Replace(c.Signed, []byte("\n2"), []byte("\n1"), 1)
		r := w.check(records, c)
		if !slices.Equal(kinds(r), []Kind{BadCheckpoint}) || r.OK() {
			t.Errorf("%+v", r)
		}
	})
	t.Run("of another log", func(t *testing.T) {
		t.Parallel()
		other := newWorld(t).lives()
		r := w.check(records, other.checkpoint("other", other.records()))
		if !slices.Equal(kinds(r), []Kind{BadCheckpoint}) || r.OK() {
			t.Errorf("%+v", r)
		}
	})
}

// TestDamage goes on behind records that cannot be read, and does not blame
// their neighbours.
func TestDamage(t *testing.T) {
	t.Parallel()
	w := newWorld(t).lives()
	store := w.ledger.Store.(*memory.Store) //nolint:forcetypeassert // newWorld's
	records := w.records()
	paid := w.at(records, domain.TypePaymentPaid, 0) + 1
	store.Damage(3)
	store.Damage(eventstore.Position(paid))
	r, err := Check(t.Context(), Of(t.Context(), store), Options{
		Codec: w.ledger.Codec, Structure: store.Verify, Checkpoints: []Checkpoint{w.checkpoint("kept", records)}, Verifiers: w.verifiers(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Findings) != 2 || r.Findings[0].Position != 3 || r.Findings[1].Position != eventstore.Position(paid) ||
		!slices.Equal(kinds(r), []Kind{DamagedRecord}) {
		t.Errorf("%v", r.Findings)
	}
	if r.Completeness.Outcome != NotChecked || r.Checkpoints[0].Outcome != NotChecked || r.Root != nil {
		t.Errorf("%+v", r)
	}
	store.Damage(3)
	store.Damage(eventstore.Position(paid))
	r, err = Check(t.Context(), Of(t.Context(), store), Options{Codec: w.ledger.Codec, Structure: store.Verify})
	if err != nil || !r.OK() || len(r.Findings) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestClaimWindow lets a key be claimed again when it was forgotten.
func TestClaimWindow(t *testing.T) {
	t.Parallel()
	for days, want := range map[int]bool{0: false, 29: false, 30: true, 46: true, 400: true} {
		c := newClaims()
		key := domain.Digest{1}
		now := time.UnixMilli(1_795_169_730_123)
		ids := domain.NewIDs(func() time.Time { return now }, bytes.NewReader(make([]byte, 1000)), domain.ID{})
		stored := func(p eventstore.Position, project string) eventstore.Stored {
			return eventstore.Stored{Position: p, Stream: eventstore.Stream{Project: project}, Commit: ids.Next()}
		}
		if c.add(stored(1, "a"), key) != 0 || c.add(stored(2, "b"), key) != 0 {
			t.Error("keys of different projects are different")
		}
		now = now.AddDate(0, 0, days)
		if got := c.add(stored(3, "a"), key) == 0; got != want {
			t.Errorf("after %d days: allowed %t, want %t", days, got, want)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t).lives()
	records := w.records()
	var lines []string
	for _, r := range records {
		lines = append(lines, fmt.Sprintf(`{"position":%d,"event":%s}`+"\n", r.Position, r.Body))
	}
	check := func(lines ...string) *Report {
		r, err := Check(t.Context(), Lines(strings.NewReader(strings.Join(lines, ""))), Options{
			Codec: w.ledger.Codec, Bare: true, Checkpoints: []Checkpoint{w.checkpoint("kept", records)}, Verifiers: w.verifiers(),
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := check(lines...); len(r.Findings) > 0 || r.Completeness.Outcome != OK || r.Events != uint64(len(lines)) {
		t.Errorf("%+v", r)
	}
	for name, c := range map[string]struct {
		lines []string
		want  Kind
		at    eventstore.Position
	}{
		"cut off":           {append(slices.Clone(lines[:7]), lines[7][:40]), DamagedRecord, 8},
		"cut between lines": {lines[:7], Truncated, 8},
		"a line removed":    {slices.Concat(lines[:7], lines[8:]), Gap, 8},
		"a line too long":   {slices.Concat(lines[:7], []string{strings.Repeat("x", 3*maxLine) + "\n"}, lines[8:]), DamagedRecord, 8},
		"a member added":    {slices.Concat(lines[:7], []string{strings.Replace(lines[7], "{", `{"x":1,`, 1)}, lines[8:]), DamagedRecord, 8},
		"a blank added":     {slices.Concat(lines[:7], []string{strings.Replace(lines[7], `"data":`, `"data": `, 1)}, lines[8:]), WrongRoot, 1},
	} {
		if r := check(c.lines...); r.OK() || !slices.Contains(kinds(r), c.want) || r.FirstBad != c.at {
			t.Errorf("%s: want %s at %d, got %v", name, c.want, c.at, r.Findings)
		}
	}
}

// TestErrors: what is no fault of the log is no finding.
func TestErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t).lives()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Check(ctx, Of(ctx, w.ledger.Store), Options{Codec: w.ledger.Codec}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	broken := errors.New("the disk is gone")
	src := func(eventstore.Position) iter.Seq2[eventstore.Stored, error] {
		return func(yield func(eventstore.Stored, error) bool) { yield(eventstore.Stored{}, broken) }
	}
	if _, err := Check(t.Context(), src, Options{Codec: w.ledger.Codec}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if r := w.check(nil); !r.OK() || r.Events != 0 {
		t.Errorf("%+v", r)
	}
}
