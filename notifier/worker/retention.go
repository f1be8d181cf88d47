package worker

import (
	"context"
	"errors"
	"time"

	"payledger/domain"
	"payledger/notifier/health"
)

// Details erases what payments are for, of projects that keep it for some days.
type Details interface {
	// Kept are these projects, and for how many days they keep it.
	Kept(ctx context.Context) (days map[string]int, err error)
	// EraseOverdue erases the details of a page of a project's payments that were created before an
	// instant, because it keeps them for so many days, the newest first, behind the last one of the page before, the zero ID at first. It leaves
	// out those that are erased, and answers the page's last payment, the zero ID if no page follows.
	EraseOverdue(ctx context.Context, project string, days int, before domain.Instant, behind domain.ID) (last domain.ID, err error)
}

// retention erases the details of payments whose project keeps them no longer. A pass goes back from
// there to the pass before, the first one of all to the first payment: so nothing is left out after an
// outage or a restart.
type retention struct {
	Config
	trouble health.State
	done    map[string]domain.Instant // by project: of all payments created before, they are erased
}

const (
	// retainEvery is the time between passes. Days are counted, so nobody waits for one.
	retainEvery = time.Minute
	// retainRests is how many times as long as for a page the retention rests after it, so that requests
	// are served beside a long pass.
	retainRests = 4
)

func newRetention(c Config) *retention {
	return &retention{Config: c, trouble: health.State{Log: c.Log, Part: "retention"}, done: make(map[string]domain.Instant)}
}

func (r *retention) run(ctx context.Context) error {
	return repeat(ctx, r.pass, r.trouble.Set)
}

// pass erases what is overdue in all projects.
func (r *retention) pass(ctx context.Context) (pause time.Duration, err error) {
	kept, err := r.Details.Kept(ctx)
	if err != nil {
		return retainEvery, err
	}
	var errs []error
	for project, days := range kept {
		errs = append(errs, r.erase(ctx, project, days))
	}
	return retainEvery, errors.Join(errs...)
}

// erase erases what is overdue in a project.
func (r *retention) erase(ctx context.Context, project string, days int) error {
	before := domain.InstantOf(r.Now().Add(-time.Duration(days) * 24 * time.Hour))
	for behind := (domain.ID{}); ; {
		began := time.Now()
		last, err := r.Details.EraseOverdue(ctx, project, days, before, behind)
		if err != nil {
			return err
		}
		if last == (domain.ID{}) || domain.IDTime(last) < r.done[project] {
			r.done[project] = before
			return nil
		}
		if behind = last; !health.Pause(ctx, retainRests*time.Since(began)) {
			return ctx.Err()
		}
	}
}
