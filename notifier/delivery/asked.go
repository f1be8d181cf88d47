package delivery

import (
	"slices"
	"time"

	"payledger/domain"
)

// askedFor is a delivery that somebody asked to be sent now: a test, or one
// sent again. It is begun before what is due, while the circuit breaker is open
// as well, and in places of its own: it is no probe, and holds up nobody else.
// The rules of its lane hold, so where something goes before it there it is left
// to its turn.
type askedFor struct{ payment, event domain.ID }

// How many are sent to an endpoint at the same time, and how many wait for it
// in memory. More than that come in their turn.
const (
	maxAsking = 4
	maxAsked  = 64
)

// ask lets a delivery that is in line be sent now, and answers it.
func (l *Lanes) ask(t *target, payment, event domain.ID) (domain.DeliveryObject, error) {
	d, err := l.delivery(t.id, event)
	if err != nil {
		return d, err
	}
	if d.NextAttemptAt != nil {
		now := l.wallNow() // whatever the circuit breaker says
		d.NextAttemptAt = &now
	}
	t.mu.Lock()
	a := askedFor{payment, event}
	if len(t.asked) < maxAsked && !slices.Contains(t.asked, a) {
		t.asked = append(t.asked, a)
	}
	t.mu.Unlock()
	t.nudge()
	return d, nil
}

// takeAsked takes those that may begin, with the places for their attempts.
func (t *target) takeAsked() []askedFor {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := min(len(t.asked), maxAsking-t.asking, int(t.limiter.TokensAt(time.Now())))
	if n <= 0 || t.leaving {
		return nil
	}
	if n = t.takeOrWait(n); n == 0 {
		return nil
	}
	taken := slices.Clone(t.asked[:n])
	t.asked = slices.Delete(t.asked, 0, n)
	t.asking += n
	return taken
}

// answered gives back places of those asked for.
func (t *target) answered(n int) {
	t.mu.Lock()
	t.asking -= n
	t.mu.Unlock()
	t.slots.give(t, n)
	t.nudge()
}
