package delivery

import (
	"context"
	"sync"
	"sync/atomic"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
)

// Lanes are the deliveries to every endpoint: what became of them, and what is asked for.
// Run sends them. Safe for concurrent use.
type Lanes struct {
	config  Config
	answers answers
	sender  atomic.Pointer[sender] // nil: this process does not send
}

// New makes the lanes of a log.
func New(c Config) *Lanes { return &Lanes{config: c.withDefaults()} }

// Open counts the notifications that are pending and the dead letters, of all endpoints.
func (l *Lanes) Open() (pending, undelivered int) {
	for _, e := range l.config.Rows.Endpoints() {
		pending, undelivered = pending+e.Pending, undelivered+e.DeadLetters()
	}
	return pending, undelivered
}

// Secret answers a signing secret of an endpoint.
func (l *Lanes) Secret(endpoint string, s projects.Secret) (string, error) {
	return l.config.Secrets.Secret(endpoint, s.KeyVersion, s.Generation)
}

// KeyVersion is the version of the master key that new secrets are made with.
func (l *Lanes) KeyVersion() int { return l.config.Secrets.Current() }

// CheckTarget says why a URL may not be called, nil if it may.
func (l *Lanes) CheckTarget(url string) error { return l.config.Sender.Check(url) }

func (l *Lanes) wallNow() domain.Instant { return domain.InstantOf(l.config.Now()) }

// shown converts an instant of the sender's clock to the wall clock as it is now.
func (l *Lanes) shown(at domain.Instant) domain.Instant {
	if s := l.sender.Load(); s != nil {
		return s.clock.shown(at)
	}
	return at
}

// find looks an endpoint up. state is set if it gets nothing: what its deliveries
// become, held if it is disabled and cancelled if there is none.
func (l *Lanes) find(ctx context.Context, project, id string) (e projects.Endpoint, state domain.DeliveryState, err error) {
	p, ok, err := l.config.Views.Project(ctx, project)
	if err != nil {
		return e, "", err
	}
	if ok {
		e, ok = p.Endpoint(id)
	}
	switch {
	case !ok:
		return e, domain.DeliveryCancelled, nil
	case e.Disabled != "":
		return e, domain.DeliveryHeld, nil
	}
	return e, "", nil
}

// live finds an endpoint that may be sent something.
func (l *Lanes) live(ctx context.Context, project, endpoint string) (projects.Endpoint, error) {
	e, state, err := l.find(ctx, project, endpoint)
	switch {
	case err != nil:
		return e, err
	case state == domain.DeliveryCancelled:
		return e, &domain.Refusal{Code: domain.WebhookEndpointNotFound}
	case state == domain.DeliveryHeld:
		return e, &domain.Refusal{Code: domain.WebhookEndpointDisabledCode}
	}
	return e, l.config.Rows.Fresh(ctx)
}

// maxAnswers bounds the answers in memory, each of 1 KiB at most.
const maxAnswers = 1 << 13

// answers are the beginnings of the answers to the newest attempts of this process.
type answers struct {
	mu   sync.Mutex
	text map[answerKey]string
	all  []answerKey // oldest first
}

type answerKey struct {
	endpoint string
	event    domain.ID
	attempt  int // from 1
}

func (a *answers) put(k answerKey, text string) {
	if text == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.text == nil {
		a.text = make(map[answerKey]string)
	}
	if len(a.all) == maxAnswers {
		delete(a.text, a.all[0])
		a.all = a.all[1:]
	}
	a.text[k], a.all = text, append(a.all, k)
}

func (a *answers) get(k answerKey) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text[k]
}

// newest finds the last event of a payment that an endpoint is notified of; the zero
// value if there is none.
func (l *Lanes) newest(ctx context.Context, e projects.Endpoint, project string, payment domain.ID) (newest domain.ID, err error) {
	for r, err := range l.config.Ledger.Codec.Events(l.config.Ledger.Store.Load(ctx, eventstore.PaymentStream(project, payment))) {
		if err != nil {
			return newest, err
		}
		if k, notifies := domain.KindOf(r.Event); notifies {
			if _, wanted := e.KindFor(k, r.Sequence); wanted {
				newest = r.Commit
			}
		}
	}
	return newest, nil
}
