package service

import (
	"cmp"
	"slices"
	"time"

	"payledger/cmd/payledger/process"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/diskspace"
	"payledger/httpapi/wire"
)

// degraded says what waits although payments are recorded.
func (b *messaging) degraded() []string {
	all := slices.Concat(b.routes.degraded(), b.collector.Degraded())
	if w := b.watchdog.Load(); w != nil {
		all = slices.Concat(w.Degraded(), all)
	}
	return all
}

// room is how many bytes are free on the disk, how many have to be, and why
// nothing can be recorded where they are fewer. What cannot be read is 0.
func (c *core) room(minFree uint64) (free, floor uint64, full error) {
	floor = cmp.Or(minFree, diskspace.DefaultFloor)
	free, err := diskspace.Free(string(c.dir))
	if err == nil && free < floor {
		full = eventstore.ErrFull
	}
	return free, floor, full
}

// cramped says for /readyz that the disk has no room. Reading goes on, so the
// server stays ready.
func (c *core) cramped(minFree uint64) []string {
	if _, _, full := c.room(minFree); full != nil {
		return []string{"Nothing new is recorded: " + full.Error() + "."}
	}
	return nil
}

// statusOf answers for the command status. It reads what is in memory, and asks
// the disk for its free space.
func (c *core) statusOf(o Options, base string, b *messaging) func() wire.Status {
	started := domain.InstantOf(time.Now())
	return func() wire.Status {
		s := wire.Status{
			StartedAt: started, BaseURL: base, Position: uint64(c.views.Position()), RoutingRules: len(b.routes.set.Table()),
			Limits: wire.LimitsOf(domain.Settings{}, o.Limits), Ready: true, Trouble: append([]string{}, b.degraded()...),
		}
		s.Version, s.Revision = process.BuiltFrom()
		s.Connectors = b.connectors(c.views)
		s.NotificationsPending, s.NotificationsUndelivered = c.deliveries.Open()
		var full error
		s.DiskFreeBytes, s.DiskFreeMinBytes, full = c.room(o.MinFree)
		for _, err := range []error{full, c.answers()} {
			if err != nil {
				s.Ready, s.Trouble = false, append(s.Trouble, err.Error())
			}
		}
		return s
	}
}
