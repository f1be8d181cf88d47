package service

import (
	"cmp"
	"slices"

	"payledger/cmd/payledger/process"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/httpapi/wire"
)

// degraded says what waits although payments are recorded.
func (a *app) degraded() []string {
	all := a.routes.degraded()
	if w := a.watchdog.Load(); w != nil { // the collector runs; what it found before may be over
		all = slices.Concat(w.Degraded(), all, a.collector.Degraded())
	}
	return all
}

// space is how many bytes are free on the disk, how many have to be, and why
// nothing can be recorded where they are fewer. What cannot be read is 0.
func (a *app) space() (free, floor uint64, full error) {
	floor = cmp.Or(a.MinFree, bolt.DefaultFloor)
	free, err := bolt.FreeSpace(string(a.dir))
	if err == nil && free < floor {
		full = eventstore.ErrFull
	}
	return free, floor, full
}

// status answers for the command status. It reads what is in memory, and asks
// the disk for its free space.
func (a *app) status() wire.Status {
	s := wire.Status{
		StartedAt: a.startedAt, BaseURL: a.at.BaseURL, Position: uint64(a.views.Position()), RoutingRules: len(a.routes.set.Table()),
		Limits: wire.LimitsOf(domain.Settings{}, a.Limits), Ready: true, Trouble: append([]string{}, a.degraded()...),
	}
	s.Version, s.Revision = process.BuiltFrom()
	s.Connectors = a.connectors()
	s.NotificationsPending, s.NotificationsUndelivered = a.lanes.Open()
	var full error
	s.DiskFreeBytes, s.DiskFreeMinBytes, full = a.space()
	for _, err := range []error{full, a.answers()} {
		if err != nil {
			s.Ready, s.Trouble = false, append(s.Trouble, err.Error())
		}
	}
	return s
}
