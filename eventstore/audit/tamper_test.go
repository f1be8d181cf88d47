package audit

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/domain/projects"
	"payledger/eventstore"
)

// renumber gives the records positions from 1 and links them again, as a careful
// attacker would.
func renumber(records []eventstore.Stored) []eventstore.Stored {
	heads := make(map[eventstore.Stream]eventstore.Position)
	for i := range records {
		r := &records[i]
		r.Position, r.Prev = eventstore.Position(i+1), heads[r.Stream]
		heads[r.Stream] = r.Position
	}
	return records
}

// forge replaces the record's event by another, correctly encoded.
func (w *world) forge(r eventstore.Stored, e domain.Event) eventstore.Stored {
	w.t.Helper()
	body, err := w.ledger.Codec.Encode(r.Stream, r.Sequence, r.Commit, eventstore.Cause{}, e)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	r.Body = body
	_, version, _ := w.ledger.Codec.DecodeVersion(r)
	r.Claim = eventstore.ClaimOf(e, version)
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
			i := w.at(all, projects.TypeKeyIssued, 0)
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
			all[2].Body = bytes.Replace(all[2].Body, []byte(`"version":`), []byte(`"version":9`), 1)
			return all, 2
		}},
		"an unknown member": {BadEvent, func(_ *world, all records) (records, int) {
			all[2].Body = bytes.Replace(all[2].Body, []byte(`"data":{`), []byte(`"data":{"colour":"red",`), 1)
			return all, 2
		}},
		"without its amount": {ImpossibleEvent, func(w *world, all records) (records, int) {
			i := w.at(all, domain.TypePaymentCreated, 0)
			all[i].Body = bytes.Replace(all[i].Body, []byte(`"amount":"1500.00",`), nil, 1)
			return all, i
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
			all[i] = w.forge(all[i], projects.ProjectDisabled{})
			return all, i
		}},
		"an unknown kind of stream": {BrokenStream, func(w *world, all records) (records, int) {
			return w.forged(all, eventstore.Stream{Project: w.project, Kind: "ledger", ID: "x"}, projects.ProjectDisabled{}), len(all)
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
			// A changed amount, for example, is possible, but not with the later events.
			t.Errorf("byte %d: first bad position %d, want %d: %v", b, at, i+1, without.Findings)
		}
	}
	if byTree == 0 || byTree == len(records[i].Body) {
		t.Errorf("%d of %d flips are found by the tree alone", byTree, len(records[i].Body))
	}
}

// TestSentBackward: a log in which an endpoint was sent a lower sequence of a payment than
// before is not one that the rules lead to, whoever begins the attempts.
func TestSentBackward(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lives()
	all := w.records()
	payment, other := w.ids.Next(), w.ids.Next()
	noted := func(s eventstore.Stream, endpoint string, payment domain.ID, sequences ...uint64) {
		n := deliveries.Noted{At: 1, Endpoints: []string{endpoint}}
		for _, q := range sequences {
			n.Entries = append(n.Entries, deliveries.Entry{Payment: payment, Sequence: q, What: deliveries.Begun}.Text(),
				deliveries.Entry{Payment: payment, Sequence: q, What: deliveries.Delivered, Status: 200}.Text())
		}
		all = w.forged(all, s, n)
	}
	sent := eventstore.DeliveriesStream()
	noted(sent, "we_a", payment, 1, 2, 2)
	noted(sent, "we_b", payment, 1)
	noted(sent, "we_a", other, 1)
	noted(eventstore.RequestedStream(w.ids.Next()), "we_a", payment, 3)
	if r := w.check(all); len(r.Findings) != 0 {
		t.Fatalf("findings %+v", r.Findings)
	}
	noted(sent, "we_a", payment, 2)
	r := w.check(all)
	if len(r.Findings) != 1 || r.Findings[0].Kind != ImpossibleEvent || r.Findings[0].Position != eventstore.Position(len(all)) ||
		!strings.Contains(r.Findings[0].Detail, "endpoint we_a was sent sequence 2 of payment "+payment.String()+", and sequence 3 before") {
		t.Errorf("findings %+v", r.Findings)
	}
}

// TestDeliveriesElsewhere: what senders did is in one stream, or in that of a request to send again.
func TestDeliveriesElsewhere(t *testing.T) {
	t.Parallel()
	for _, s := range []eventstore.Stream{
		{Project: eventstore.KindInstallation, Kind: eventstore.KindDeliveries, ID: "other"},
		{Project: "prj_1", Kind: eventstore.KindDeliveries, ID: "sent"},
	} {
		w := newWorld(t).lives()
		all := w.forged(w.records(), s, deliveries.Noted{At: 1})
		if r := w.check(all); len(r.Findings) != 1 || r.Findings[0].Kind != BrokenStream || r.FirstBad != eventstore.Position(len(all)) {
			t.Errorf("%v: findings %+v", s, r.Findings)
		}
	}
}

// TestManyFindingsHideNoLowerOne: of more findings than are kept, the lowest position is known.
func TestManyFindingsHideNoLowerOne(t *testing.T) {
	t.Parallel()
	r := &Report{}
	for at := range eventstore.Position(maxFindings) {
		r.Add(Finding{Kind: BadEvent, Position: 50 + at})
	}
	r.Add(Finding{Kind: MissingDetails, Position: 7})
	r.narrow(Finding{Kind: WrongRoot, Position: 60})
	if r.FirstBad != 7 {
		t.Errorf("the first is at %d", r.FirstBad)
	}
}

// TestEntriesThatCannotBe: an event of deliveries whose entries name no endpoint is found.
func TestEntriesThatCannotBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lives()
	all := w.forged(w.records(), eventstore.DeliveriesStream(), deliveries.Noted{Entries: []deliveries.Text{deliveries.Entry{Endpoint: 1, What: deliveries.Begun}.Text()}})
	if r := w.check(all); len(r.Findings) != 1 || r.Findings[0].Kind != ImpossibleEvent {
		t.Errorf("findings %+v", r.Findings)
	}
}
