package connectortest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"payledger/domain"
	"payledger/notifier/connector"
)

// NewMemory makes an empty provider in memory.
func NewMemory() Provider {
	return &memory{keys: make(map[string]string), attempts: make(map[string]*attempt)}
}

// memory is a provider and its connector in one: calls are not sent anywhere.
// Its notifications are the reference, or "refund" or "dispute" and the reference, signed by
// a header.
type memory struct {
	Faults

	mu       sync.Mutex
	wrong    domain.Amount
	keys     map[string]string // key → reference, or "" for a stored error
	attempts map[string]*attempt
	sent     []Notification
}

type attempt struct {
	connector.Attempt
	state   connector.State
	refunds []connector.RefundState

	disputes []connector.DisputeState
}

var errServer = errors.New("server error")

// call locks the provider for one request, and returns how it ends if not well:
// before anything is done, or after. key is its idempotency key; "": none.
func (m *memory) call(ctx context.Context, key string) (before, after error) {
	fault := m.Next(key != "")
	m.mu.Lock()
	if err := ctx.Err(); err != nil {
		return err, nil
	}
	switch fault {
	case 0:
		return nil, nil
	case Busy:
		return &connector.BusyError{After: time.Second, Err: errServer}, nil
	case Silent:
		m.mu.Unlock()
		<-ctx.Done()
		m.mu.Lock()
		return nil, ctx.Err()
	case ErrorAfter, Garbage, Endless:
		return nil, errServer
	case StoredError:
		m.keys[key] = ""
	}
	return errServer, nil
}

func (m *memory) Begin(ctx context.Context, a connector.Attempt) (connector.State, error) {
	before, after := m.call(ctx, a.Key)
	defer m.mu.Unlock()
	ref, known := m.keys[a.Key]
	switch {
	case before != nil:
		return connector.State{}, before
	case a.Amount > 1_000_000_00:
		return connector.State{}, &connector.RefusedError{Reason: "amount_too_large"}
	case known && ref == "":
		return connector.State{}, &connector.SpentKeyError{Err: errServer}
	case !known:
		ref = fmt.Sprintf("attempt %d", len(m.attempts))
		s := connector.State{Reference: ref, Phase: connector.Open, HandOff: &domain.HandOff{Kind: domain.HandOffRedirect, URL: "https://pay.example.com/" + strconv.Itoa(len(m.attempts))}}
		m.keys[a.Key], m.attempts[ref] = ref, &attempt{Attempt: a, state: s}
	}
	return m.attempts[ref].state, after
}

func (m *memory) Read(ctx context.Context, a connector.Attempt) (connector.State, error) {
	before, after := m.call(ctx, "")
	defer m.mu.Unlock()
	at, ok := m.attempts[a.Reference]
	switch {
	case before != nil:
		return connector.State{}, before
	case !ok, at.Payment != a.Payment:
		return connector.State{}, connector.ErrNotFound
	}
	return at.state, after
}

func (m *memory) Cancel(ctx context.Context, a connector.Attempt) (connector.State, error) {
	s, err := m.Read(ctx, a)
	if err == nil && m.end(a.Reference, connector.Closed) {
		return m.Read(ctx, a)
	}
	return s, err
}

func (m *memory) Refund(ctx context.Context, r connector.Refund) (connector.RefundState, error) {
	before, after := m.call(ctx, r.ID.String())
	defer m.mu.Unlock()
	stored, known := m.keys[r.ID.String()]
	at := m.attempts[r.Attempt.Reference]
	switch {
	case before != nil:
		return connector.RefundState{}, before
	case known && stored == "":
		return connector.RefundState{}, errServer
	}
	for _, s := range at.refunds {
		if s.ID == r.ID {
			return s, after
		}
	}
	for _, s := range at.refunds {
		if s.Phase != connector.Closed {
			return connector.RefundState{ID: r.ID, Phase: connector.Closed, Reason: connector.ReasonRefundedAtProvider}, after
		}
	}
	if at.state.Phase != connector.Paid {
		return connector.RefundState{ID: r.ID, Phase: connector.Closed, Reason: "not_paid"}, after
	}
	return m.refund(at, r.ID, connector.Open), after
}

func (m *memory) refund(at *attempt, id domain.ID, phase connector.Phase) connector.RefundState {
	s := connector.RefundState{ID: id, Reference: at.state.Reference + strconv.Itoa(len(at.refunds)), Phase: phase, Amount: at.state.Amount, Currency: at.Currency}
	at.refunds = append(at.refunds, s)
	m.sent = append(m.sent, m.Signed([]byte("refund "+at.state.Reference)))
	return s
}

func (m *memory) Refunds(ctx context.Context, a connector.Attempt) ([]connector.RefundState, error) {
	before, after := m.call(ctx, "")
	defer m.mu.Unlock()
	at, ok := m.attempts[a.Reference]
	switch {
	case before != nil:
		return nil, before
	case !ok:
		return nil, connector.ErrNotFound
	}
	return slices.Clone(at.refunds), after
}

func (m *memory) Disputes(ctx context.Context, a connector.Attempt) ([]connector.DisputeState, error) {
	before, after := m.call(ctx, "")
	defer m.mu.Unlock()
	at, ok := m.attempts[a.Reference]
	switch {
	case before != nil:
		return nil, before
	case !ok:
		return nil, connector.ErrNotFound
	}
	return slices.Clone(at.disputes), after
}

func (m *memory) Notices(_ context.Context, header http.Header, body []byte) ([]connector.Notice, error) {
	if header.Get("Signature") != string(body) {
		return nil, connector.ErrForged
	}
	ref, refunds := strings.CutPrefix(string(body), "refund ")
	ref, disputes := strings.CutPrefix(ref, "dispute ")
	switch {
	case string(body) == "foreign":
		return nil, nil
	case !strings.HasPrefix(ref, "attempt "):
		return nil, &connector.RefusedError{Reason: "malformed"}
	}
	return []connector.Notice{{Reference: ref, Refunds: refunds, Disputes: disputes}}, nil
}

func (m *memory) Connector() connector.Connector { return m }

func (m *memory) end(ref string, phase connector.Phase) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.attempts[ref]
	if !ok || at.state.Phase != connector.Open {
		return false
	}
	at.state = connector.State{Reference: ref, Phase: phase}
	if phase == connector.Paid {
		at.state.Amount, at.state.Currency = at.Amount+m.wrong, at.Currency
	} else {
		at.state.Reason = "ended"
	}
	m.sent = append(m.sent, m.Signed([]byte(ref)))
	return true
}

func (m *memory) Pay(ref string) bool     { return m.end(ref, connector.Paid) }
func (m *memory) Decline(ref string) bool { return m.end(ref, connector.Closed) }
func (m *memory) Expire(ref string) bool  { return m.end(ref, connector.Closed) }

func (m *memory) RefundByHand(ref string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.attempts[ref]
	if !ok || at.state.Phase != connector.Paid || slices.ContainsFunc(at.refunds, func(s connector.RefundState) bool { return s.Phase != connector.Closed }) {
		return false
	}
	m.refund(at, domain.ID{}, connector.Paid)
	return true
}

func (m *memory) SettleRefund(id domain.ID, succeeded bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, at := range m.attempts {
		for i := range at.refunds {
			s := &at.refunds[i]
			switch {
			case s.ID != id || s.Phase != connector.Open:
			case succeeded:
				s.Phase = connector.Paid
				return true
			default:
				s.Phase, s.Reason = connector.Closed, "account_closed"
				return true
			}
		}
	}
	return false
}

func (m *memory) TakeBack(ref string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.attempts[ref]; ok {
		for i := range at.refunds {
			if s := &at.refunds[i]; s.Phase == connector.Paid {
				s.Phase, s.Reason = connector.Closed, "account_closed"
				m.sent = append(m.sent, m.Signed([]byte("refund "+ref)))
				return true
			}
		}
	}
	return false
}

func (m *memory) Dispute(ref string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.attempts[ref]
	if !ok || at.state.Phase != connector.Paid {
		return false
	}
	at.disputes = append(at.disputes, connector.DisputeState{
		Reference: "dispute of " + ref + strconv.Itoa(len(at.disputes)), Outcome: domain.OutcomeDisputed, Reason: "fraudulent",
		Amount: at.state.Amount, Currency: at.Currency, OpenedAt: at.BegunAt.Time(), EvidenceDueBy: at.BegunAt.Time().AddDate(0, 0, 7),
	})
	m.sent = append(m.sent, m.Signed([]byte("dispute "+ref)))
	return true
}

func (m *memory) EndDispute(ref string, won bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	ended := false
	if at, ok := m.attempts[ref]; ok {
		for i := range at.disputes {
			if d := &at.disputes[i]; d.Outcome == domain.OutcomeDisputed {
				d.Outcome, ended = domain.OutcomeDisputeLost, true
				if won {
					d.Outcome = domain.OutcomeDisputeWon
				}
				m.sent = append(m.sent, m.Signed([]byte("dispute "+ref)))
			}
		}
	}
	return ended
}

func (m *memory) Attempts(payment domain.ID) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var refs []string
	for ref, at := range m.attempts {
		if at.Payment == payment {
			refs = append(refs, ref)
		}
	}
	return refs
}

func (m *memory) ForgetKeys() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.keys)
}

func (m *memory) WrongAmount() { m.wrong = 1 }

func (m *memory) Sent() []Notification {
	m.mu.Lock()
	defer m.mu.Unlock()
	sent := m.sent
	m.sent = nil
	return sent
}

func (m *memory) Forged(ref string) Notification {
	return Notification{Body: []byte(ref)}
}

func (m *memory) Signed(body []byte) Notification {
	return Notification{Header: http.Header{"Signature": {string(body)}}, Body: body}
}

func (m *memory) Foreign() []Notification {
	return []Notification{m.Signed([]byte("foreign"))}
}

func (m *memory) Collected() []Money {
	return m.money(func(at *attempt) bool { return at.state.Phase == connector.Paid })
}

func (m *memory) Returned() []Money {
	return m.money(func(at *attempt) bool {
		return slices.ContainsFunc(at.refunds, func(s connector.RefundState) bool { return s.Phase == connector.Paid })
	})
}

func (m *memory) money(moved func(*attempt) bool) []Money {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Money
	for ref, at := range m.attempts {
		if moved(at) {
			all = append(all, Money{Reference: ref, Payment: at.Payment, Amount: at.state.Amount, Currency: at.state.Currency})
		}
	}
	return all
}

func (m *memory) Secrets() []string { return []string{"sk_memory"} }
