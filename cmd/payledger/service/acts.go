package service

import (
	"context"

	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// acts records what operators do to the installation as a whole.
type acts struct {
	ledger eventstore.Ledger
	ids    *domain.IDs
}

// record records an act, unless it is recorded already.
func (a acts) record(ctx context.Context, why eventstore.Cause, c domain.InstallationCommand) error {
	return health.Persist(ctx, func() error {
		_, err := eventstore.Execute(ctx, a.ledger, eventstore.InstallationStream(), domain.Installation{}, c,
			eventstore.Order{EventID: a.ids.Next(), Cause: why})
		return err
	})
}

// recordRestore records the restore that the directory has a note of, which may
// outlast a crash: the act is recorded once.
func (c *core) recordRestore(ctx context.Context) error {
	note, ok, err := c.dir.ReadRestored()
	if err == nil && ok {
		err = acts{c.ledger, c.ids}.record(ctx, eventstore.Cause{Actor: note.Actor}, domain.RestoreLog(note.Act))
	}
	if err == nil && ok {
		err = datadir.RemoveIfExists(c.dir.Restored())
	}
	if err != nil && ctx.Err() == nil {
		c.log.Error().Err(err).Msg("the restore of the log could not be recorded")
	}
	return nil
}
