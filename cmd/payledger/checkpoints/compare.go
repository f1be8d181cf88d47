package checkpoints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/mod/sumdb/tlog"

	"payledger/cmd/payledger/cli"
	"payledger/eventstore"
	"payledger/eventstore/translog"
	"payledger/notifier/health"
)

// The projections store the hashes of the log's tree, so they do not show whether the log was changed after they folded
// it. Therefore the log's bytes are compared with the newest checkpoint, and each record's claim, which no tree covers,
// with its event: a few events before anything is served, and all of them, while the server serves, before anything new
// is signed.

// How many events are compared before anything is served: the last ones the
// checkpoint covers, and others at random.
const (
	lastCompared   = 16
	randomCompared = 32
)

// viewsDifferError: the log matches its checkpoint, but the projections' tree
// does not.
type viewsDifferError struct{ reason string }

func (e *viewsDifferError) Error() string {
	return "the projections' tree is not the log's: " + e.reason
}

// refusal is the error that the log does not match its newest checkpoint, with
// advice.
func (s *Signer) refusal(err error) error {
	const onPurpose = "If you put an older log there on purpose, move %[2]s away: the log continues from its last event, and anyone with a later checkpoint can prove it"
	if errors.As(err, new(*translog.TruncatedError)) {
		return cli.Errorf(cli.ExitDirectory, "%[3]w: events at the end of %[1]s are missing. Put the newest ledger.db back. "+onPurpose, s.dir.Ledger(), s.file, err)
	}
	if errors.As(err, new(*eventstore.WrongClaimError)) {
		return cli.Errorf(cli.ExitDirectory, "the log was altered: %w, so a key could be used twice. Find out what happened with \"payledger verify\", and restore the newest backup", err)
	}
	return cli.Errorf(cli.ExitDirectory, "%[1]w. Find out what happened with \"payledger verify\", and put the log back that %[2]s was signed for. "+onPurpose, err, s.file)
}

// glance compares a fixed number of the log's events with the newest checkpoint,
// so it takes the same time for every log. If they differ, the whole log is read
// to find out whether the log or the projections are wrong: the error is
// refusal's or a *viewsDifferError.
func (s *Signer) glance(ctx context.Context) error {
	if s.opened < s.newest.Size {
		return s.refusal(&translog.TruncatedError{Checkpoint: s.newest, Size: s.opened})
	}
	root, err := s.views.RootAt(ctx, s.newest.Size)
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "comparing the log with its newest checkpoint: %w", err)
	}
	err = &viewsDifferError{fmt.Sprintf("its root at %d events is %s", s.newest.Size, root)}
	if root == s.newest.Root {
		err = s.sample(ctx)
	}
	differs, ok := errors.AsType[*viewsDifferError](err)
	switch {
	case errors.As(err, new(*eventstore.WrongClaimError)):
		return s.refusal(err)
	case err == nil, errors.As(err, new(*eventstore.CorruptError)): // the comparison of the whole log reports it
		return nil
	case !ok:
		return cli.Errorf(cli.ExitDirectory, "comparing the log with its newest checkpoint: %w", err)
	}
	tree := translog.NewStreaming(s.newest)
	err = s.read(ctx, 0, s.newest.Size, func(r eventstore.Stored) error { return tree.Append(r.Body) })
	switch {
	case errors.As(err, new(*translog.MismatchError)):
		return s.refusal(err)
	case err != nil:
		return cli.Errorf(cli.ExitDirectory, "comparing the log with its newest checkpoint, which its projections are not (%s): %w", differs.reason, err)
	}
	return differs
}

// sample checks some events: their bytes in the log, with the hashes that the
// projections keep, must lead to the checkpoint's root, and their claims must be those
// of the events. The error is of the first that does not.
func (s *Signer) sample(ctx context.Context) error {
	size := s.newest.Size
	after, last := size-min(size, lastCompared), size
	for range 1 + randomCompared {
		err := s.read(ctx, after, last, func(r eventstore.Stored) error {
			proof, err := s.views.Inclusion(ctx, r.Position, size)
			if err != nil {
				return err
			}
			if unproved := proof.Check(s.newest, r.Body); unproved != nil {
				return &viewsDifferError{unproved.Error()}
			}
			return s.codec.CheckClaim(r)
		})
		if err != nil || size == 0 {
			return err
		}
		after = eventstore.Position(rand.Uint64N(uint64(size))) //nolint:gosec // guessing it is of no use
		last = after + 1
	}
	return nil
}

// read reads the log's events after a position.
func (s *Signer) read(ctx context.Context, after, last eventstore.Position, each func(eventstore.Stored) error) error {
	if after >= last {
		return nil
	}
	for r, err := range s.Store.Scan(ctx, after, eventstore.Filter{}) {
		if err == nil {
			err = each(r)
		}
		if err != nil || r.Position >= last {
			return err
		}
	}
	return nil
}

// Compare reads the log up to where it ended when it was opened. If the log agrees with the newest
// checkpoint and with the projections' tree, checkpoints may be signed. If paced, it takes at most
// half a processor's time. The error is a difference, with which the process must end. Events that
// cannot be read are none: work that does not need them continues, and nothing new is signed.
func (s *Signer) Compare(ctx context.Context) error {
	begun, worked := time.Now(), time.Now()
	var pinned []translog.Checkpoint
	if s.signed != nil {
		pinned = append(pinned, s.newest)
	}
	tree := translog.NewStreaming(pinned...)
	report := cli.EachInterval(func(done, total eventstore.Position) {
		s.Log.Info().Uint64("position", uint64(done)).Uint64("events", uint64(total)).Msg("comparing the log with its newest checkpoint; nothing new is signed before")
	})
	err := s.read(ctx, 0, s.opened, func(r eventstore.Stored) error {
		if err := cmp.Or(tree.Append(r.Body), s.codec.CheckClaim(r)); err != nil {
			return err
		}
		if r.Position%1024 != 0 {
			return nil
		}
		s.comparedTo.Store(uint64(r.Position))
		report(r.Position, s.opened)
		if s.Paced {
			select {
			case <-ctx.Done():
			case <-time.After(time.Since(worked)):
			}
			worked = time.Now()
		}
		return ctx.Err()
	})
	var root tlog.Hash
	if err == nil {
		root, err = s.views.RootAt(ctx, s.opened)
	}
	defer func() {
		if ctx.Err() == nil {
			close(s.compared)
		}
	}()
	switch {
	case ctx.Err() != nil:
	case errors.As(err, new(*translog.MismatchError)), errors.As(err, new(*eventstore.WrongClaimError)):
		s.suspect = s.refusal(err)
		return s.suspect
	case errors.As(err, new(*eventstore.CorruptError)):
		s.Log.Error().Err(err).Msg("the log cannot be compared with its newest checkpoint, so nothing new is signed: " +
			"find out what is damaged with \"payledger verify\", and restore the newest backup")
		s.suspect = fmt.Errorf("the log cannot be compared with its newest checkpoint: %w", err)
	case err != nil:
		s.suspect = err
	case root != tree.Root():
		reason := fmt.Sprintf("the log's root at %d events is %s, theirs %s: either they were altered, or the log was altered after they had folded it", s.opened, tree.Root(), root)
		s.suspect = cli.Errorf(cli.ExitFailed, "%w", s.views.Distrust(reason))
		return s.suspect
	default:
		s.comparedTo.Store(uint64(s.opened))
		s.Log.Info().Uint64("events", uint64(s.opened)).Dur("took", time.Since(begun)).Msg("the log is what its newest checkpoint was signed for")
	}
	return nil
}

// Whole waits until the whole log was compared. The error is why checkpoints are not signed.
func (s *Signer) Whole(ctx context.Context) error {
	select {
	case <-s.compared:
		return s.suspect
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Missing is what to say if the log was opened without its newest checkpoint, else empty.
func (s *Signer) Missing() string { return s.missing }

// noteMissing notes in the log that its checkpoint is missing; one has been there since the
// directory was made. The log continues, because an operator who puts an older log there on purpose
// moves the checkpoint away.
func (s *Signer) noteMissing(now time.Time) error {
	if s.opened == 0 {
		return nil
	}
	s.missing = fmt.Sprintf("%s is missing next to a log of %d events: if the log's end was cut off, nothing here would show it. "+
		"Put the newest checkpoint back, or compare the log with one that was kept elsewhere: payledger verify --data %s --checkpoint FILE. "+
		"If a backup was restored or the checkpoint moved away on purpose, nothing is to be done; it is noted in the log", s.file, s.opened, s.dir)
	s.Log.Error().Uint64("events", uint64(s.opened)).Msg(s.missing)
	if s.ReadOnly {
		return nil
	}
	err := s.Store.NoteMissingCheckpoint(now)
	if errors.Is(err, eventstore.ErrFull) {
		return nil // the next start may have the space
	}
	return err
}

// Observe adds the metrics of the comparison and of the newest checkpoint.
func (s *Signer) Observe(m prometheus.Registerer) {
	health.GaugeFunc(m, "payledger_log_compared_position", "Up to where the log was compared with its newest checkpoint since the start.",
		func() float64 { return float64(s.comparedTo.Load()) })
	health.FlagFunc(m, "payledger_log_compared", "1 when the whole log was compared since the start, so that checkpoints are signed; 0 before, or when it cannot be.",
		func() bool {
			select {
			case <-s.compared:
				return s.suspect == nil
			default:
				return false
			}
		})
	health.FlagFunc(m, "payledger_log_checkpoint_missing", "1 when the log was opened without its newest checkpoint.",
		func() bool { return s.missing != "" })
	health.GaugeFunc(m, "payledger_log_checkpoint_cosignatures", "How many nodes of the cluster vouch for the newest checkpoint, as the leader counts them; 0 without a cluster.",
		func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return float64(s.vouched)
		})
	health.GaugeFunc(m, "payledger_log_checkpoint_age_seconds", "Time since the newest checkpoint was signed or came from another node; while nothing is recorded none is signed.",
		func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return max(0, s.Now().Sub(s.at).Seconds())
		})
}
