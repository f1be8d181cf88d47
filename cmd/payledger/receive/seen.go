package receive

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// remembered is how many payments a receiver remembers at least.
const remembered = 100_000

// recent is a bounded map that drops its oldest keys. It keeps at least the
// newest `remembered` keys, and at most twice as many.
type recent struct{ young, old map[string]uint64 }

func (r *recent) at(key string) uint64 {
	if v, ok := r.young[key]; ok {
		return v
	}
	return r.old[key]
}

func (r *recent) put(key string, v uint64) {
	if _, ok := r.young[key]; !ok && len(r.young) >= remembered {
		r.old, r.young = r.young, make(map[string]uint64)
	}
	r.young[key] = v
}

// lastSeen is the highest sequence of each payment that was dealt with.
type lastSeen struct {
	mu   sync.Mutex
	last recent
	busy map[string]chan struct{} // by payment; closed at the end of its turn
}

func newLastSeen() *lastSeen {
	return &lastSeen{last: recent{young: make(map[string]uint64)}, busy: make(map[string]chan struct{})}
}

// enter waits until no other notification of the payment is being handled, and
// returns the payment's last sequence. The caller must call leave with the new
// last sequence. Notifications of no payment ("") do not wait.
func (s *lastSeen) enter(ctx context.Context, payment string) (last uint64, leave func(last uint64), err error) {
	if payment == "" {
		return 0, func(uint64) {}, nil
	}
	for {
		s.mu.Lock()
		turn, taken := s.busy[payment]
		if !taken {
			break
		}
		s.mu.Unlock()
		select {
		case <-turn:
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		}
	}
	defer s.mu.Unlock()
	over := make(chan struct{})
	s.busy[payment] = over
	return s.last.at(payment), func(last uint64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if last > 0 {
			s.last.put(payment, last)
		}
		delete(s.busy, payment)
		close(over)
	}, nil
}

// print prints a line about a notification that was verified.
func (r *Receiver) print(n notification) {
	r.printing.Lock()
	defer r.printing.Unlock()
	var err error
	if r.o.JSON {
		var b []byte
		if b, err = json.Marshal(n, json.Deterministic(true)); err == nil {
			_, err = r.o.Stdout.Write(append(b, '\n'))
		}
	} else {
		_, err = fmt.Fprintln(r.o.Stdout, n.line())
	}
	if err != nil {
		select {
		case r.failed <- fmt.Errorf("printing what came: %w", err):
		default:
		}
	}
}

// line is a notification for people:
//
//	10:19:02  payment.paid  01M7W78FJBM8T4R7B5N0C1D2E3  paid 1500.00 RUB  sequence 3  attempt 1  200
func (n notification) line() string {
	of := n.PaymentID
	switch {
	case n.RefundID != "":
		of = n.RefundID
	case of == "":
		of = n.EndpointID
	}
	var about []string
	for _, s := range []string{n.Status, n.Amount, n.Currency} {
		if s != "" {
			about = append(about, s)
		}
	}
	columns := []string{n.ReceivedAt.Local().Format(time.TimeOnly), n.Type, of, strings.Join(about, " ")}
	if n.Sequence > 0 {
		columns = append(columns, "sequence "+strconv.FormatUint(n.Sequence, 10))
	}
	if n.Attempt > 0 {
		columns = append(columns, "attempt "+strconv.Itoa(n.Attempt))
	}
	end := strconv.Itoa(n.Answered)
	if n.Note != "" {
		end += ", " + n.Note
	}
	columns = slices.DeleteFunc(append(columns, end), func(c string) bool { return c == "" })
	return strings.Map(func(r rune) rune { // a control character could change a terminal's state
		if strconv.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, strings.Join(columns, "  "))
}
