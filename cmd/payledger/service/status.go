package service

import (
	"cmp"
	"slices"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/diskspace"
	"payledger/httpapi/wire"
)

// degraded says what waits although payments are recorded.
func (b *messaging) degraded() []string {
	return slices.Concat(b.watchdog.Degraded(), b.routes.degraded(), b.collector.Degraded())
}

// statusOf answers for the command status. It reads what is in memory, and asks
// the disk for its free space.
func (c *core) statusOf(o Options, base string, b *messaging) func() wire.Status {
	started := domain.InstantOf(time.Now())
	return func() wire.Status {
		s := wire.Status{
			StartedAt: started, BaseURL: base, Position: uint64(c.views.Position()), RoutingRules: len(b.routes.set.Table()),
			Ready: true, Trouble: append([]string{}, b.degraded()...), DiskFreeMinBytes: cmp.Or(o.MinFree, diskspace.DefaultFloor),
		}
		s.Version, s.Revision = BuiltFrom()
		s.Connectors = b.connectors(c.views)
		s.NotificationsPending, s.NotificationsUndelivered = c.deliveries.lanes.Open()
		if free, err := diskspace.Free(string(c.dir)); err == nil {
			if s.DiskFreeBytes = free; free < s.DiskFreeMinBytes {
				s.Ready, s.Trouble = false, append(s.Trouble, eventstore.ErrFull.Error())
			}
		}
		if err := c.ready(); err != nil {
			s.Ready, s.Trouble = false, append(s.Trouble, err.Error())
		}
		return s
	}
}
