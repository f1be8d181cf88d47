package connector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/connector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T) *nats.Conn {
	t.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	closed := make(chan struct{})
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		<-closed
	})
	return nc
}

func payment() domain.Payment {
	at := domain.InstantOf(time.Now())
	return domain.Payment{
		Project: "prj_test", ID: domain.ID{1, 2, 3}, Status: domain.AwaitingPayment, Amount: 150000, Currency: domain.DefaultCurrency,
		CreatedAt: at, ExpiresAt: at.Add(time.Hour), Route: "visa",
	}
}

// TestSandboxResendsUntilAnswered: the same bytes each time, and an answer to
// any of them will do.
func TestSandboxResendsUntilAnswered(t *testing.T) {
	t.Parallel()
	nc, p := connect(t), payment()
	sent, err := nc.SubscribeSync(bus.SignalSubject("visa", p.Project, p.ID))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	var bodies, inboxes []string
	go func() {
		defer close(answered)
		for range 2 {
			m, err := sent.NextMsg(2 * time.Minute)
			if err != nil {
				t.Error(err)
				return
			}
			bodies = append(bodies, string(m.Data))
			inboxes = append(inboxes, m.Header.Get(bus.ReplyHeader))
		}
		if err := nc.Publish(inboxes[0], []byte(`{"result":"applied","event_id":"00000000000000000000000000","position":9}`)); err != nil {
			t.Error(err)
		}
	}()
	before := domain.InstantOf(time.Now())
	reply, err := connector.NewSandbox(nc, time.Now).SignalPayment(t.Context(), p, domain.OutcomePaid, "ref-1")
	if err != nil {
		t.Fatal(err)
	}
	<-answered
	if diff := cmp.Diff(domain.SignalReply{Result: domain.SignalApplied, EventID: &domain.ID{}, Position: 9}, reply); diff != "" {
		t.Error(diff)
	}
	if bodies[0] != bodies[1] || inboxes[0] != inboxes[1] || inboxes[0] == "" {
		t.Errorf("%q, %q", bodies, inboxes)
	}
	s, _, err := bus.DecodeSignal("visa", []byte(bodies[0]))
	if err != nil {
		t.Fatal(err)
	}
	if s.StartedAt < before {
		t.Errorf("begun %v, before it was", s.StartedAt)
	}
	want := domain.Signal{
		Route: "visa", Outcome: domain.OutcomePaid, Reference: "ref-1", Amount: p.Amount, Currency: p.Currency, StartedAt: s.StartedAt,
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
}

func TestSandboxSignalsRefunds(t *testing.T) {
	t.Parallel()
	nc, p, refund := connect(t), payment(), domain.ID{9}
	p.Route = ""                             // not assigned yet: its own
	p.CreatedAt = p.CreatedAt.Add(time.Hour) // the clock was set back since
	sub, err := nc.Subscribe(bus.SignalSubject(domain.SandboxRoute, p.Project, p.ID), func(m *nats.Msg) {
		s, _, err := bus.DecodeSignal(domain.SandboxRoute, m.Data)
		if err != nil || s.RefundID == nil || *s.RefundID != refund || s.Outcome != domain.OutcomeFailed || s.Amount != p.Amount || s.StartedAt != p.CreatedAt {
			t.Errorf("%+v, %v", s, err)
		}
		if err := nc.Publish(m.Header.Get(bus.ReplyHeader), []byte(`{"result":"refused","reason":"final_status"}`)); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	reply, err := connector.NewSandbox(nc, time.Now).SignalRefund(t.Context(), p, refund, domain.OutcomeFailed, "ref")
	if err != nil || reply.Result != domain.SignalRefused || reply.Reason != domain.ReasonFinalStatus {
		t.Errorf("%+v, %v", reply, err)
	}
}

// TestSandboxTellsAnswersApart: many signals at once through one subscription,
// each answered under its own inbox, some more than once.
func TestSandboxTellsAnswersApart(t *testing.T) {
	t.Parallel()
	const signals = 200
	nc, p := connect(t), payment()
	_, err := nc.Subscribe(bus.SignalSubject("visa", p.Project, p.ID), func(m *nats.Msg) {
		s, _, err := bus.DecodeSignal("visa", m.Data)
		if err != nil {
			t.Error(err)
			return
		}
		n, _ := strings.CutPrefix(s.Reference, "ref-")
		for range 2 {
			if err := nc.Publish(m.Header.Get(bus.ReplyHeader), []byte(`{"result":"applied","position":`+n+`}`)); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	sandbox, before := connector.NewSandbox(nc, time.Now), nc.NumSubscriptions()
	var sent sync.WaitGroup
	for n := range uint64(signals) {
		sent.Go(func() {
			reply, err := sandbox.SignalPayment(t.Context(), p, domain.OutcomePaid, fmt.Sprintf("ref-%d", n))
			if err != nil || reply.Position != n {
				t.Errorf("%d: %+v, %v", n, reply, err)
			}
		})
	}
	sent.Wait()
	if n := nc.NumSubscriptions() - before; n != 1 {
		t.Errorf("%d subscriptions for %d signals", n, signals)
	}
}

func TestSendEndsWithTheContextOrTheConnection(t *testing.T) {
	t.Parallel()
	nc, p := connect(t), payment()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	s := connector.NewSandbox(nc, time.Now)
	if _, err := s.SignalPayment(ctx, p, domain.OutcomePaid, "ref"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	p.Project = "two words"
	if _, err := s.SignalPayment(t.Context(), p, domain.OutcomePaid, "ref"); !errors.Is(err, nats.ErrBadSubject) {
		t.Errorf("%v", err)
	}
	nc.Close()
	if _, err := s.SignalPayment(t.Context(), payment(), domain.OutcomePaid, "ref"); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("%v", err)
	}
}

// FuzzDecode: what is read is a valid signal, and comes out of Encode as it
// went in.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"outcome":"paid","reference":"r","amount":"1.00","currency":"RUB","started_at":"2026-11-20T10:15:30.123Z"}`))
	f.Add([]byte(`{"outcome":"failed","reference":"r","refund_id":"01M7W78FJBM8T4R7B5N0C1D2E3","amount":"0.01","currency":"USD"}`))
	f.Add([]byte(`{"outcome":"failed","reference":"r","refund_id":"01M7W78FJBM8T4R7B5N0C1D2E3","amount":"1","currency":"USD","reason":"card_lost"}`))
	f.Add([]byte(`{"outcome":"failed","reference":"r","amount":"1","currency":"USD","reason":"card_lost"}`))
	f.Add([]byte(`{"outcome":"disputed","reference":"r","amount":"1","currency":"USD","reason":"fraudulent","evidence_due_by":"2026-11-20T10:15:30.123Z"}`))
	f.Add([]byte(`{"outcome":"dispute_won","reference":"r","amount":"1","currency":"USD","evidence_due_by":"2026-11-20T10:15:30.123Z"}`))
	f.Add([]byte(`{"outcome":"paid","outcome":"failed"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, reason, err := bus.DecodeSignal("visa", data)
		if err != nil {
			return
		}
		if err := s.Validate(); err != nil || s.Route != "visa" {
			t.Fatalf("%+v: %v", s, err)
		}
		b, err := bus.EncodeSignal(s, reason)
		if err != nil {
			t.Fatal(err)
		}
		again, reasonAgain, err := bus.DecodeSignal("visa", b)
		if err != nil || reasonAgain != reason {
			t.Fatalf("%s: %v", b, err)
		}
		if diff := cmp.Diff(s, again); diff != "" {
			t.Error(diff)
		}
	})
}
