package audit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/memory"
	"payledger/eventstore/translog"
)

// failer is what testing.TB and rapid.T share.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
	Context() context.Context
}

// world is a valid log grown by commands.
type world struct {
	t      failer
	ledger eventstore.Ledger
	ids    *domain.IDs
	now    time.Time
	signer *translog.Signer

	project  string
	settings domain.Settings
	payments []domain.ID
	states   map[domain.ID]domain.Payment
	keys     int
}

func newWorld(t failer) *world {
	t.Helper()
	w := &world{
		t: t, ledger: eventstore.Ledger{Store: memory.New(), Codec: eventstore.NewCodec()},
		now: time.UnixMilli(1_795_169_730_123), settings: domain.DefaultSettings(), states: make(map[domain.ID]domain.Payment),
	}
	w.ids = domain.NewIDs(func() time.Time { return w.now }, rand.Reader, domain.ID{})
	log := w.ids.Next()
	key, err := translog.NewKey(rand.Reader, translog.Origin(log))
	if err != nil {
		t.Fatalf("%v", err)
	}
	if w.signer, err = translog.ParseSigner(key); err != nil {
		t.Fatalf("%v", err)
	}
	w.project = "prj_" + w.ids.Next().String()
	w.onProject(projects.RegisterProject{Name: "Tea", Settings: w.settings})
	return w
}

func (w *world) onProject(c projects.ProjectCommand) {
	w.t.Helper()
	_, err := eventstore.Execute(w.t.Context(), w.ledger, eventstore.ProjectStream(w.project), projects.Project{ID: w.project}, c,
		eventstore.Order{EventID: w.ids.Next()})
	if err != nil {
		w.t.Fatalf("%T: %v", c, err)
	}
}

func (w *world) issueKey() {
	w.t.Helper()
	w.keys++
	id := fmt.Sprintf("key_%d", w.keys)
	w.onProject(projects.IssueKey{KeyID: id, Hash: sha256.Sum256([]byte(id)), Scopes: projects.AllScopes()})
}

// on applies a command to a payment. A command that is refused or changes nothing
// adds no event.
func (w *world) on(id domain.ID, c domain.PaymentCommand, event domain.ID, claim *eventstore.Claim) {
	w.t.Helper()
	r, err := eventstore.Execute(w.t.Context(), w.ledger, eventstore.PaymentStream(w.project, id),
		domain.Payment{Project: w.project, ID: id}, c, eventstore.Order{EventID: event, Claim: claim})
	var refusal *domain.Refusal
	var early *domain.TooEarlyError
	if apply, ok := c.(domain.ApplySignal); ok && errors.As(err, new(*eventstore.ClaimedError)) && !apply.ReferenceUsed {
		apply.ReferenceUsed = true // as the enforcer does
		w.on(id, apply, event, nil)
		return
	}
	switch {
	case errors.As(err, &refusal), errors.As(err, &early):
	case err != nil:
		w.t.Fatalf("%T: %v", c, err)
	default:
		w.states[id] = r.State
	}
}

func (w *world) create(keyed bool) domain.ID {
	w.t.Helper()
	id, event := w.ids.Pair()
	description := fmt.Sprintf("order-%d", len(w.payments))
	c := domain.CreatePayment{
		At: domain.IDTime(event), Amount: 150000, Currency: "RUB", Description: &description,
		Payload: domain.JSON(`{"cart":7}`), Settings: w.settings,
		Link: domain.Link{Base: "https://pay.example.com", KeyVersion: 1, Render: 1},
	}
	var claim *eventstore.Claim
	if keyed {
		claim = &eventstore.Claim{Key: sha256.Sum256(id[:]), Fingerprint: sha256.Sum256([]byte(description))}
		c.Idempotency = &domain.Idempotency{Key: claim.Key, Fingerprint: claim.Fingerprint}
	}
	w.on(id, c, event, claim)
	w.payments = append(w.payments, id)
	return id
}

func (w *world) route(id domain.ID) {
	w.t.Helper()
	w.on(id, domain.AssignRoute{Table: domain.SandboxTable()}, w.ids.Next(), nil)
}

func (w *world) signal(id domain.ID, o domain.Outcome, reference string, refund *domain.ID) {
	w.t.Helper()
	w.on(id, domain.ApplySignal{Signal: domain.Signal{
		Route: domain.SandboxRoute, Outcome: o, Reference: reference, RefundID: refund, Amount: 150000, Currency: "RUB",
		StartedAt: domain.InstantOf(w.now),
	}}, w.ids.Next(), nil)
}

func (w *world) refund(id domain.ID) domain.ID {
	w.t.Helper()
	refund, event := w.ids.Pair()
	w.on(id, domain.CreateRefund{At: domain.IDTime(event), RefundID: refund}, event, nil)
	return refund
}

func (w *world) expire(id domain.ID) {
	w.t.Helper()
	event := w.ids.Next()
	w.on(id, domain.ExpirePayment{At: domain.IDTime(event)}, event, nil)
}

// lives adds payments with every event type.
func (w *world) lives() *world {
	w.t.Helper()
	w.issueKey()
	w.issueKey()
	w.onProject(projects.ChangeProject{Name: "Чай", Settings: w.settings})
	w.onProject(projects.RevokeKey{KeyID: "key_1"})
	paid := w.create(true)
	w.route(paid)
	waiting := w.create(false)
	w.route(waiting)
	w.signal(paid, domain.OutcomePaid, "a", nil)
	w.signal(paid, domain.OutcomePaid, "b", nil) // late funds
	w.signal(paid, domain.OutcomeFailed, "c", nil)
	lost := w.refund(paid)
	w.signal(paid, domain.OutcomeFailed, "d", &lost)
	again := w.refund(paid)
	w.signal(paid, domain.OutcomeSucceeded, "e", &again)
	unrouted := w.create(false)
	w.on(unrouted, domain.AssignRoute{}, w.ids.Next(), nil)
	failed := w.create(true)
	w.route(failed)
	w.signal(failed, domain.OutcomeFailed, "f", nil)
	w.now = w.now.Add(2 * time.Hour)
	w.expire(waiting)
	w.onProject(projects.DisableProject{})
	return w
}

// records is the whole log.
func (w *world) records() []eventstore.Stored {
	w.t.Helper()
	var all []eventstore.Stored
	for r, err := range w.ledger.Store.Scan(w.t.Context(), 0, eventstore.Filter{}) {
		if err != nil {
			w.t.Fatalf("%v", err)
		}
		all = append(all, r)
	}
	return all
}

// checkpoint signs the tree over the records.
func (w *world) checkpoint(name string, records []eventstore.Stored) Checkpoint {
	w.t.Helper()
	var e translog.Edge
	for _, r := range records {
		e.Append(nil, translog.Leaf(r.Body))
	}
	signed, err := w.signer.Sign(translog.Checkpoint{Origin: w.signer.Origin(), Size: e.Size(), Root: e.Root()})
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	return Checkpoint{Name: name, Signed: string(signed)}
}

func (w *world) verifiers() []*translog.Verifier {
	w.t.Helper()
	v, err := translog.ParseVerifier(w.signer.VerifierKey())
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	return []*translog.Verifier{v}
}

// check checks records against checkpoints.
func (w *world) check(records []eventstore.Stored, checkpoints ...Checkpoint) *Report {
	w.t.Helper()
	o := Options{Codec: w.ledger.Codec, Against: Against{Checkpoints: checkpoints, Verifiers: w.verifiers()}, Origin: w.signer.Origin()}
	r, err := Check(w.t.Context(), listed(records), o)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	// The result is the same when every payment is packed at once.
	o.decoded = 1
	if packed, err := Check(w.t.Context(), listed(records), o); err != nil || !reflect.DeepEqual(packed, r) {
		w.t.Fatalf("%+v, with packed payments %+v, %v", r, packed, err)
	}
	return r
}

// listed yields the records unchanged, in their order.
func listed(records []eventstore.Stored) Source {
	return func(eventstore.Position) iter.Seq2[eventstore.Stored, error] {
		return func(yield func(eventstore.Stored, error) bool) {
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

func kinds(r *Report) []Kind {
	var all []Kind
	for _, f := range r.Findings {
		if !slices.Contains(all, f.Kind) {
			all = append(all, f.Kind)
		}
	}
	return all
}

var _ failer = testing.TB(nil)
