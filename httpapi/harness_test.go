package httpapi

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/eventstore/memory"
	"payledger/httpapi/admin"
	"payledger/httpapi/checkout"
	"payledger/httpapi/merchant"
	"payledger/notifier/health/healthtest"
	"payledger/projections"

	"github.com/rs/zerolog"
)

const (
	publicURL     = "https://pay.example.com"
	endpointsPath = "/v1/webhook-endpoints"
)

// settings are the settings of both handlers.
type settings struct {
	Config

	Backup func(ctx context.Context, begin func(last eventstore.Position, size int64) (io.Writer, error)) error
	Parked admin.Parked
	Record func(ctx context.Context, why eventstore.Cause, c installation.Command) (recorded bool, err error)
}

// server is the public handler behind a real listener, over a memory store and real
// views, with everything a test needs to use it.
type server struct {
	t      testing.TB
	url    string
	cfg    settings
	store  *memory.Store
	clock  *clock
	log    *healthtest.Buffer
	hooks  *hookSender
	client *http.Client
	admin  http.Handler
	public http.Handler

	keyOnce                *sync.Once // of the key that checkpoints are signed with
	signerKey, verifierKey string
	keyErr                 error
}

// start runs a server without limits and with a sandbox.
func start(t testing.TB, change ...func(*settings)) *server {
	t.Helper()
	return startOn(t, memory.New(), change...)
}

// startOn is start over a log that may have events.
func startOn(t testing.TB, store *memory.Store, change ...func(*settings)) *server {
	t.Helper()
	s := &server{t: t, store: store, clock: newClock(), log: new(healthtest.Buffer), keyOnce: new(sync.Once), client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 128},
	}}
	s.cfg.Config = Config{Log: zerolog.New(s.log), Config: merchant.Config{
		Ledger:    eventstore.Ledger{Store: s.store, Codec: eventstore.NewCodec()},
		IDs:       domain.NewIDs(s.clock.Now, rand.Reader, domain.ID{}),
		Now:       s.clock.Now,
		PublicURL: publicURL,
	}}
	s.cfg.Sandbox = provider{s: s}
	s.cfg.Connectors = new(judge)
	s.cfg.Account, s.cfg.KeyTimes = accountKeys(t), new(keyTimes)
	s.cfg.Ready, s.cfg.Degraded = func() error { return nil }, func() []string { return nil }
	s.hooks = &hookSender{s: s, newest: make(map[domain.ID]domain.ID)}
	s.cfg.Webhooks = s.hooks
	s.cfg.RetrySchedule = []time.Duration{0, 5 * time.Second, 90 * time.Second, 26 * time.Hour}
	var err error
	if s.cfg.Links, err = checkout.NewLinks(map[int][32]byte{1: {1}, 2: {2}}, 1); err != nil {
		t.Fatal(err)
	}
	s.cfg.Views, err = projections.Open(t.Context(), projections.Config{
		Path: filepath.Join(t.TempDir(), "projections.db"), Store: s.store, Codec: s.cfg.Ledger.Codec, LogID: domain.ID{1},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var following sync.WaitGroup
	following.Go(func() { _ = s.cfg.Views.Run(ctx) })
	s.cfg.Checkpoint = s.sign
	for _, f := range change {
		f(&s.cfg)
	}
	if s.public, err = New(s.cfg.Config); err != nil {
		t.Fatal(err)
	}
	s.admin, err = admin.New(admin.Config{
		Config: s.cfg.Config.Config, Log: s.cfg.Log, Backup: s.cfg.Backup, Parked: s.cfg.Parked, Record: s.cfg.Record,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(s.public)
	s.url = listener.URL
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		listener.Close()
		stop()
		following.Wait()
		_ = s.cfg.Views.Close()
		_ = s.store.Close()
	})
	return s
}

// again serves the same log and views with changed settings.
func (s *server) again(change func(*settings)) *server {
	s.t.Helper()
	other := *s
	change(&other.cfg)
	var err error
	if other.public, err = New(other.cfg.Config); err != nil {
		s.t.Fatal(err)
	}
	listener := httptest.NewServer(other.public)
	s.t.Cleanup(listener.Close)
	other.url = listener.URL
	return &other
}

// clock moves only when a test moves it.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.ms.Store(1795169730123)
	return c
}

func (c *clock) Now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// provider stands in for the sandbox: it applies a signal at once, as the enforcer
// would. twice: it loses the first answer to each signal and sends it again.
type provider struct {
	s     *server
	twice bool
}

func (p provider) SignalPayment(ctx context.Context, pay domain.Payment, outcome domain.Outcome, ref string) (domain.SignalReply, error) {
	return p.apply(ctx, pay, domain.Signal{
		Route: pay.Route, Outcome: outcome, Reference: ref, Amount: pay.Amount, Currency: pay.Currency,
		StartedAt: domain.InstantOf(p.s.clock.Now()),
	})
}

func (p provider) SignalRefund(ctx context.Context, pay domain.Payment, refund domain.ID, outcome domain.Outcome, ref string) (domain.SignalReply, error) {
	return p.apply(ctx, pay, domain.Signal{
		Route: pay.Route, Outcome: outcome, Reference: ref, RefundID: &refund, Amount: pay.Amount, Currency: pay.Currency,
	})
}

func (p provider) apply(ctx context.Context, pay domain.Payment, signal domain.Signal) (domain.SignalReply, error) {
	res, err := p.s.decide(ctx, pay.Project, pay.ID, domain.ApplySignal{Signal: signal})
	if p.twice && err == nil {
		res, err = p.s.decide(ctx, pay.Project, pay.ID, domain.ApplySignal{Signal: signal})
	}
	reply := domain.SignalReply{Result: domain.SignalApplied}
	switch e := res.Event.(type) {
	case nil:
		reply.Result = domain.SignalUnchanged
	case domain.PaymentSignalRefused:
		reply.Result, reply.Reason = domain.SignalRefused, e.Reason
	case domain.PaymentLateFunds:
		reply.Result, reply.Reason = domain.SignalLateFunds, e.Reason
	}
	return reply, err
}

// decide runs a command against a payment, as the workers behind JetStream
// would.
func (s *server) decide(ctx context.Context, project string, id domain.ID, cmd domain.PaymentCommand) (eventstore.Result[domain.Payment], error) {
	return eventstore.Execute(ctx, s.cfg.Ledger, eventstore.PaymentStream(project, id),
		domain.Payment{Project: project, ID: id}, cmd, eventstore.Order{EventID: s.cfg.IDs.Next()})
}

func filterOf(project string) eventstore.Filter { return eventstore.Filter{Project: project} }
