package service

import (
	"context"
	"crypto/rand"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/notifier/health"
)

// actLog records what operators did to the program as a whole, and holds the state
// after it. Safe for concurrent use.
type actLog struct {
	ledger eventstore.Ledger
	ids    *domain.IDs

	opened eventstore.Position
	acting sync.Mutex // one act at a time, so that no state replaces a newer one
	state  atomic.Pointer[installation.Installation]
}

// openActLog reads the acts recorded so far.
func openActLog(ctx context.Context, l eventstore.Ledger, ids *domain.IDs) (i *actLog, err error) {
	i = &actLog{ledger: l, ids: ids}
	if i.opened, err = l.Store.Last(ctx); err == nil {
		err = i.fold(ctx)
	}
	if err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "reading what operators did, which routes are paused among it: %w", err)
	}
	return i, nil
}

// fold takes up what the log has.
func (i *actLog) fold(ctx context.Context) error {
	i.acting.Lock()
	defer i.acting.Unlock()
	state, _, err := eventstore.Fold(ctx, i.ledger, eventstore.InstallationStream(), installation.Installation{})
	if err == nil {
		i.state.Store(&state)
	}
	return err
}

// follow takes up what other nodes of a cluster have recorded since, until ctx ends. changed hears of
// it.
func (i *actLog) follow(ctx context.Context, changed func()) error {
	err := i.ledger.Store.Follow(ctx, i.opened, eventstore.Filter{Kind: eventstore.KindInstallation}, func(eventstore.Stored) error {
		err := i.fold(ctx)
		if err == nil {
			changed()
		}
		return err
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was asked to end
	}
	return err
}

// now is the present state.
func (i *actLog) now() installation.Installation { return *i.state.Load() }

// paused reports whether the route is paused.
func (i *actLog) paused(route string) bool {
	_, ok := i.now().Pause(route)
	return ok
}

// record records an act, and reports whether there was anything to record.
func (i *actLog) record(ctx context.Context, why eventstore.Cause, c installation.Command) (did bool, err error) {
	return i.recordAt(ctx, why, func(domain.Instant) installation.Command { return c })
}

// recordAt is record for a command that holds the time at which it is recorded.
func (i *actLog) recordAt(ctx context.Context, why eventstore.Cause, command func(domain.Instant) installation.Command) (did bool, err error) {
	i.acting.Lock()
	defer i.acting.Unlock()
	id := i.ids.Next()
	r, err := eventstore.Execute(ctx, i.ledger, eventstore.InstallationStream(), installation.Installation{}, command(domain.IDTime(id)),
		eventstore.Order{EventID: id, Cause: why})
	if err == nil {
		i.state.Store(&r.State)
		did = r.Event != nil
	}
	return did, err
}

// RenewLogKey makes a key for the log's checkpoints where there is none. No server
// runs, so the command records the act itself, before the key is written.
func RenewLogKey(ctx context.Context, d datadir.Dir, why eventstore.Cause, stderr io.Writer) error {
	return d.RenewLogKey(stderr, func(store *bolt.Store, verifierKey string) error {
		last, err := store.LastID(ctx)
		if err != nil {
			return err
		}
		ledger := eventstore.Ledger{Store: store, Codec: eventstore.NewCodec()}
		acts, err := openActLog(ctx, ledger, domain.NewIDs(time.Now, rand.Reader, last))
		if err != nil {
			return err
		}
		_, err = acts.record(ctx, why, installation.RecordAct{Act: installation.LogKeyRenewed{VerifierKey: verifierKey}})
		return err
	})
}

// recordRestore records the restore that the directory has a note of, which may outlast a crash: the
// act is recorded once, and not if the restore was stopped before it replaced the log.
func (a *app) recordRestore(ctx context.Context) {
	note, noted, err := a.dir.ReadRestored()
	if err == nil && noted {
		var happened bool
		if happened, err = replaced(ctx, a.store, note); happened {
			err = health.Persist(ctx, func() error {
				_, err := a.acts.record(ctx, eventstore.Cause{Actor: note.Actor}, installation.RestoreLog(note.Act))
				return err
			})
		}
	}
	if err == nil && noted {
		err = datadir.RemoveIfExists(a.dir.Restored())
	}
	if err != nil && ctx.Err() == nil {
		a.Log.Error().Err(err).Msg("the restore of the log could not be recorded")
	}
}

// replaced reports whether this is the log that was restored, and not the one before it.
func replaced(ctx context.Context, log *bolt.Store, note datadir.RestoredNote) (bool, error) {
	for e, err := range log.Scan(ctx, eventstore.Position(note.Act.Position), eventstore.Filter{}) {
		return err == nil && e.Commit != note.Replaced, err
	}
	last, err := log.Last(ctx)
	return last >= eventstore.Position(note.Act.Position) && log.LogID() != note.Replaced, err
}
