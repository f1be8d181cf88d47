package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// shortLog is what a long log is compared with: as many payments, or a tenth
// of the long one's if that is fewer.
const shortLog = 10_000

// longLog is a data directory with the long log, made when the first suite
// asks for it.
func (b *bench) longLog(ctx context.Context) (directory, error) {
	b.step("writing a log of %d payments", b.Payments)
	if b.long == nil {
		d, err := b.filled(ctx, "long", b.Payments)
		if err != nil {
			return d, err
		}
		b.long = &d
	}
	return *b.long, nil
}

func (b *bench) filled(ctx context.Context, name string, payments int) (directory, error) {
	d, err := b.newDirectory(ctx, name)
	if err != nil {
		return d, err
	}
	d.filled, err = Fill(ctx, d.path, d.project, payments, b.Events)
	return d, err
}

// caughtUp waits until all of the log is in JetStream. The rate is that of the
// events since it was first asked.
func (t *target) caughtUp(ctx context.Context, events int) (perSecond float64, err error) {
	var first float64
	var from time.Time
	for {
		position, err := t.metric(ctx, "payledger_relay_position")
		if err != nil {
			return 0, err
		}
		if from.IsZero() {
			first, from = position, time.Now()
		}
		lag, err := t.metric(ctx, "payledger_relay_lag_events")
		if err != nil {
			return 0, err
		}
		if lag == 0 && int(position) >= events {
			return per(position-first, time.Since(from).Seconds()), nil
		}
		if err := sleep(ctx, relayLook); err != nil {
			return 0, err
		}
	}
}

const relayLook = 20 * time.Millisecond

// repeats is how often what reads a whole log is measured.
func (b *bench) repeats() int {
	if b.Payments > 1_000_000 {
		return 1
	}
	return b.Rounds
}

func stepsReplay(b *bench) int { return 2 + 3*b.repeats() }

// replay measures what reads the log from its first event.
func (b *bench) replay(ctx context.Context) error {
	const suite = "replay"
	d, err := b.longLog(ctx)
	if err != nil {
		return err
	}
	events := float64(d.filled.Events)
	size := number(events) + " events"
	b.row(Row{
		Suite: suite, Name: "writing the long log", Unit: "events/s", Figure: per(events, d.filled.Seconds), Note: "without a server",
	})

	b.step("building the projections")
	start := time.Now()
	t, err := b.serve(ctx, d, 0)
	if err != nil {
		return err
	}
	built := time.Since(start)
	if err := t.stop(); err != nil {
		return err
	}
	b.row(Row{
		Suite: suite, Name: "building all projections at the start, " + size, Unit: "events/s", Figure: per(events, built.Seconds()), Note: "the start included",
	})

	var replayed, verified, compared series
	for range b.repeats() {
		b.step("replay")
		took, err := timed(ctx, nil, b.Program, "replay", "--data", d.path)
		if err != nil {
			return err
		}
		replayed = append(replayed, per(events, took.Seconds()))
		b.step("verify")
		if took, err = timed(ctx, nil, b.Program, "verify", filepath.Join(d.path, "ledger.db")); err != nil {
			return err
		}
		verified = append(verified, per(events, took.Seconds()))
		b.step("verify, projections too")
		if took, err = timed(ctx, nil, b.Program, "verify", "--data", d.path); err != nil {
			return err
		}
		compared = append(compared, per(events, took.Seconds()))
	}
	m := replayed.median()
	b.row(Row{
		Suite: suite, Name: "replay, " + size, Unit: "events/s", Figure: m,
		Must: figureAtLeast(250_000, m), Aim: figureAtLeast(1_000_000, m),
	})
	m = verified.median()
	b.row(Row{
		Suite: suite, Name: "verify, " + size, Unit: "events/s", Figure: m,
		Must: figureAtLeast(400_000, m), Aim: figureAtLeast(1_000_000, m),
	})
	b.row(Row{
		Suite: suite, Name: "verify with its projections built again and compared, " + size, Unit: "events/s", Figure: compared.median(),
	})
	return nil
}

func stepsRelay(*bench) int { return 2 }

// relay measures how fast JetStream is given a log it has nothing of.
func (b *bench) relay(ctx context.Context) error {
	d, err := b.longLog(ctx)
	if err != nil {
		return err
	}
	b.step("relaying the log")
	if err := os.RemoveAll(filepath.Join(d.path, "nats")); err != nil {
		return err
	}
	t, err := b.serve(ctx, d, 0)
	if err != nil {
		return err
	}
	perSecond, err := t.caughtUp(ctx, d.filled.Events)
	if err != nil {
		return err
	}
	took := per(100_000, perSecond)
	b.row(Row{
		Suite: "relay", Name: "backlog of 100 k events", Unit: "s", Figure: took, Note: fmt.Sprintf("%s events/s over %s events", number(perSecond), number(float64(d.filled.Events))),
		Must: figureAtMost(10, took), Aim: figureAtMost(4, took),
	})
	return t.stop()
}
