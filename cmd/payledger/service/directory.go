package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/checkpoints"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/clusternode"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/process"
	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/replog"
	"payledger/httpapi/account"
	"payledger/httpapi/checkout"
	"payledger/notifier/bus"
	"payledger/notifier/webhook"
	"payledger/projections"
)

// openLog locks the directory, opens its log and reads what operators have done. In a cluster ids
// observe what other nodes add.
func (a *app) openLog(ctx context.Context) (part process.Part, err error) {
	a.ids, a.stopping = domain.NewIDs(time.Now, rand.Reader, domain.ID{}), context.Background()
	a.erased = make(chan struct{}, 1)
	options := bolt.Options{MinFree: a.MinFree, SyncDelay: a.SyncDelay, Report: logTrouble(a.Log), Erased: func() { signal(a.erased) }}
	var cluster *clusternode.Cluster // what the directory is in a cluster; nil: it is alone, or opened by a command
	if a.metrics != nil {
		options.Committed = commitMetrics(a.metrics)
		cluster, err = clusternode.Load(a.dir)
	}
	var log eventstore.Store
	var twice <-chan struct{}
	switch {
	case err != nil:
		return part, err
	case cluster == nil:
		if a.store, err = a.dir.Open(options); err != nil {
			return part, err
		}
		log, part.Stop = a.store, a.store.Close
	case a.NATS.URL != "":
		return part, cli.Errorf(cli.ExitUsage, "--nats-url: %s is a node of a cluster, whose nodes have NATS servers of their own: leave it out", a.dir)
	default:
		options.Newest = a.ids.Observe
		version, _ := process.BuiltFrom()
		a.node, err = cluster.Open(ctx, clusternode.Config{Dir: a.dir, Listen: string(a.NodeListen), Bolt: options, Log: a.Log, Version: version})
		if err != nil {
			return part, err
		}
		a.store, log, twice, part.Stop = a.node.Store.Store, a.node.Store, a.node.Store.Twice(), a.node.Close
	}
	a.ledger = eventstore.Ledger{Store: traced(log, a.tracer), Codec: eventstore.NewCodec()}
	part.Run = func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-twice:
			return cli.Errorf(cli.ExitDirectory, "stopping node %s: %w", a.node.Node, replog.ErrTwice)
		case <-a.store.Fatal():
		}
		return fmt.Errorf("stopping, start again to go on from what is on disk: %w", a.store.Err())
	}
	last, err := a.store.LastID(ctx)
	if err != nil {
		return part, cli.Errorf(cli.ExitDirectory, "reading the end of the log: %w", err)
	}
	a.ids.Observe(last)
	a.acts, err = openActLog(ctx, a.ledger, a.ids)
	return part, err
}

// logTrouble logs faults of the event log that are found while it is in use, with
// advice.
func logTrouble(log zerolog.Logger) func(error) {
	return func(err error) {
		e := log.Error().Err(err)
		switch {
		case errors.As(err, new(*bolt.ReplacedError)):
			e.Msg("the event log's file is not at its place: nothing more is recorded, reading goes on; what is open is lost when the server stops")
		case errors.As(err, new(*eventstore.SuspendedError)):
			e.Msg("the event log is damaged: nothing more is recorded, reading goes on; stop the server, keep a copy of the directory and see \"payledger restore --help\"")
		case errors.As(err, new(*eventstore.CorruptError)):
			e.Msg("an event in the log is damaged: what reads it fails, everything else goes on; see \"payledger verify\" and \"payledger restore --help\"")
		default:
			e.Msg("the event log is in danger")
		}
	}
}

// ready says why nothing can be recorded, nil if it can.
func (a *app) ready() error { return errors.Join(a.store.Suspended(), a.store.Err()) }

// openViews brings the projections up to the log, and compares the log with its newest checkpoint.
func (a *app) openViews(ctx context.Context) (part process.Part, err error) {
	keys, current, err := a.dir.MasterKeys()
	if err != nil {
		return part, err
	}
	if a.links, err = checkout.NewLinks(keys, current); err != nil {
		return part, err
	}
	if a.cookies, err = account.NewKeys(keys[current]); err != nil {
		return part, err
	}
	if a.secrets, err = webhook.NewSecrets(keys, current); err != nil {
		return part, err
	}
	signer, err := a.dir.LogSigner(a.store.LogID())
	if err != nil {
		return part, err
	}
	config := projections.Config{
		Path: a.dir.Projections(), Store: a.store, Codec: a.ledger.Codec, LogID: a.store.LogID(), Progress: a.progress("Bringing the projections up to the log"),
	}
	if a.metrics == nil {
		config.Progress = cli.Progress(a.Stderr, "Reading the log")
	} else {
		var count func(e domain.Event, before, after *domain.Payment)
		count, a.seed = paymentMetrics(a.metrics)
		config.Changed = func(e domain.Event, before, after *domain.Payment) {
			count(e, before, after)
			if a.watchdog.Load() != nil { // the collector runs
				a.collector.Hear(e.Type(), after.ID)
			}
		}
	}
	a.views, a.signed, err = checkpoints.Open(ctx, a.dir,
		checkpoints.Options{Store: a.store, Key: signer, Log: a.Log, Paced: a.metrics != nil, Now: time.Now}, config)
	if err != nil {
		return part, err
	}
	if a.metrics != nil {
		a.signed.Observe(a.metrics)
		a.watchDirectory()
	}
	return process.Part{Run: a.views.Run, Stop: a.views.Close}, nil
}

// openConsumers reads how far the consumers on NATS have come.
func (a *app) openConsumers(ctx context.Context) (part process.Part, err error) {
	last, err := a.store.Last(ctx)
	if err != nil {
		return part, err
	}
	a.consumers, err = bus.OpenConsumers(bus.ConsumersConfig{
		File: a.dir.Consumers(), Write: datadir.WriteFileSynced, LogID: a.store.LogID(), Last: last, IDs: a.ids,
		Known: func() []installation.Consumer { return a.acts.now().Consumers },
	})
	if err != nil {
		return part, cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	return process.Part{Run: a.consumers.Run, Stop: a.consumers.Save}, nil
}

// openKeyTimes reads when API keys were used.
func (a *app) openKeyTimes(context.Context) (process.Part, error) {
	a.keyTimes = openKeyTimes(a.dir.KeyTimes(), a.Log)
	return process.Part{Run: a.keyTimes.Run}, nil
}

// compareLog compares the log with its newest checkpoint, while all goes on. At the end it signs one
// over all that came of the run.
func (a *app) compareLog(context.Context) (part process.Part, err error) {
	if a.node != nil {
		err = a.signed.Witness(a.node)
	}
	a.parts.Go("comparison with the newest checkpoint", a.signed.Compare)
	return process.Part{Stop: func() error { a.signed.Finish(); return nil }}, err
}
