package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// LostError: payments that the service had acknowledged were not found
// afterwards, or not as they were.
type LostError struct {
	Target  string
	Checked int
	Lost    int
	First   []string // the first few of the lost
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%s: of %d acknowledged payments %d were not found afterwards, among them %v: keep its data directory and its log",
		e.Target, e.Checked, e.Lost, e.First)
}

// maxNamed is how many lost payments are named.
const maxNamed = 5

// verify reads every acknowledged payment again. The error is a *LostError
// when one is not there, or the connection's.
func (t *target) verify(ctx context.Context) (checked int, err error) {
	all := t.acks.all()
	var mu sync.Mutex
	lost := &LostError{Target: t.name, Checked: len(all)}
	var next atomic.Int64
	err = each(ctx, t, checkers, func(t *target, c *client) func() error {
		r := t.blankID("GET", paymentsPath+"/%s", "")
		return func() error {
			n := next.Add(1)
			if n > int64(len(all)) {
				return errDone
			}
			p := all[n-1]
			a, err := c.do(r.with(p.id[:]))
			if err != nil {
				return err
			}
			if got, ok := a.id(); a.status == 200 && ok && got == p.id {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if lost.Lost++; len(lost.First) < maxNamed {
				lost.First = append(lost.First, string(p.id[:]))
			}
			return nil
		}
	})
	if err == nil && lost.Lost > 0 {
		err = lost
	}
	return len(all), err
}

// checkers is how many connections read everything again.
const checkers = 32
