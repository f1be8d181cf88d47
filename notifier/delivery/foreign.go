package delivery

import (
	"context"
	"time"

	"payledger/domain"
	"payledger/notifier/delivery/store"
	"payledger/notifier/health"
)

// foreignTime is longer than a request takes. So long after another node led, none of
// its requests is under way.
const foreignTime = domain.AnswerTime + 5*time.Second

// leaveAlone takes the attempts whose end is not in the file for being under way: the
// node that led before may be making them. The writer does not run yet.
func (l *Lanes) leaveAlone() error {
	horizon := l.clock.now().Add(foreignTime)
	return l.file.View(func(x store.Tables) error {
		for _, t := range l.all() {
			after := store.DueKey{}
			for keys := x.DueAfter(t.number, after, windowSize); len(keys) > 0; keys = x.DueAfter(t.number, after, windowSize) {
				for _, after = range keys {
					lane, err := x.Lane(t.number, after.Payment())
					if err != nil {
						return err
					}
					if lane.Started > 0 && lane.Line[0].Sequence <= lane.Started {
						l.foreign = append(l.foreign, lane.Key())
						l.underWay[lane.Key()] = true
					}
				}
				if after.At() > horizon {
					break // the rest waits longer
				}
			}
		}
		return nil
	})
}

// waitForForeign waits until no request of another node that is missing in the file can be
// under way, and then notes that. Whichever node leads before it is noted waits the whole
// time, by its own clock: those of two nodes may differ.
func (l *Lanes) waitForForeign(ctx context.Context) {
	if !l.unknown {
		return
	}
	select {
	case <-ctx.Done():
	case <-l.writer.failed:
	case <-time.After(foreignTime):
		_ = l.writer.insist(ctx, func(x *tx) error { // a failure of the file is Run's
			x.SetRequestsUnknown(false)
			return nil
		}, 0)
	}
}

// release lets attempts begin again where another node may have made some.
func (l *Lanes) release(ctx context.Context) {
	if len(l.foreign) == 0 || !health.Pause(ctx, foreignTime) {
		return
	}
	_ = l.writer.insist(ctx, func(x *tx) error { // a failure of the file is Run's
		targets := make(map[store.Number]*target)
		for _, t := range l.all() {
			targets[t.number] = t
		}
		for _, k := range l.foreign {
			delete(l.underWay, k)
			number, payment := k.Parts()
			lane, err := x.Lane(number, payment)
			if err != nil {
				return err
			}
			if t := targets[number]; t != nil {
				x.save(t, lane)
			}
		}
		return nil
	}, 0)
}
