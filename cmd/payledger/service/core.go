package service

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/cmd/payledger/checkpoints"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/clusternode"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/nodewitness"
	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/tracing"
	"payledger/httpapi/account"
	httpadmin "payledger/httpapi/admin"
	"payledger/httpapi/checkout"
	"payledger/httpapi/merchant"
	"payledger/notifier/consumers"
	"payledger/notifier/webhook"
	"payledger/projections"
)

// core is an open data directory: the log, its projections and everything that
// commands on it need. The server and the commands that work on a stopped
// directory share it.
type core struct {
	dir     datadir.Dir
	log     zerolog.Logger
	store   *bolt.Store       // the directory's own file
	node    *clusternode.Node // the directory's part in a cluster; nil: it is alone
	ledger  eventstore.Ledger // of the file, or in a cluster of all nodes
	views   *projections.Engine
	ids     *domain.IDs
	links   *checkout.Links
	cookies *account.Keys
	signed  *checkpoints.Signer

	acts       *actLog
	deliveries *deliveries
	consumers  *consumers.Book
	keyTimes   *keyTimes
	settling   sync.Mutex         // see httpadmin.Config
	tracer     *tracing.Tracer    // nil: nothing is traced
	seed       func(route string) // lets a route's counters begin with 0

	closeLog  func() error
	stopping  context.Context    // ends when streaming answers must end
	stop      context.CancelFunc // ends it
	stopViews context.CancelFunc
	viewsDone chan error     // the end of views.Run
	beside    sync.WaitGroup // what runs until stopViews
}

// CoreOptions say how a data directory is opened.
type CoreOptions struct {
	Log      zerolog.Logger
	Progress func(done, total eventstore.Position)
	MinFree  uint64 // free bytes on disk below which writes are refused; 0: the store's default

	AllowPrivate bool                                  // webhook endpoints may be anywhere
	Schedule     webhook.Schedule                      // of notifications; nil: the default
	Webhooks     int                                   // under way at the same time; 0: the default
	Metrics      prometheus.Registerer                 // nil for a command, which has no metrics
	Committed    func(commits int, took time.Duration) // see bolt.Options; nil for a command
	Tracer       *tracing.Tracer                       // nil: nothing is traced

	erased func() // see bolt.Options

	SyncDelay time.Duration // added to each sync of the log

	Reading bool // a command that only reads: the directory may be read-only

	Cluster    *clusternode.Cluster // what the directory is in a cluster; nil: it is alone
	NodeListen string               // see clusternode.Config
}

// openCore locks the directory, opens the log and brings the projections up
// to it.
func openCore(ctx context.Context, d datadir.Dir, o CoreOptions) (_ *core, err error) {
	ids := domain.NewIDs(time.Now, rand.Reader, domain.ID{})
	erasures := scrubs()
	o.erased = want(erasures)
	opened, err := openLog(ctx, d, o, ids)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.Close())
		}
	}()
	store := opened.file
	keys, current, err := d.MasterKeys()
	if err != nil {
		return nil, err
	}
	links, err := checkout.NewLinks(keys, current)
	if err != nil {
		return nil, err
	}
	cookies, err := account.NewKeys(keys[current])
	if err != nil {
		return nil, err
	}
	signer, err := d.LogSigner(store.LogID())
	if err != nil {
		return nil, err
	}
	last, err := store.LastID(ctx)
	if err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "reading the end of the log: %w", err)
	}
	codec := eventstore.NewCodec()
	counted, seed := paymentMetrics(o.Metrics)
	ledger := eventstore.Ledger{Store: opened.log, Codec: codec}
	views, signed, err := checkpoints.Open(ctx, d, checkpoints.Options{Store: store, Key: signer, Log: o.Log, Paced: o.Metrics != nil, Now: time.Now},
		projections.Config{Path: d.Projections(), Store: store, Codec: codec, LogID: store.LogID(), Progress: o.Progress, Changed: counted})
	if err != nil {
		return nil, err
	}
	if o.Metrics != nil {
		signed.Observe(o.Metrics)
	}
	ids.Observe(last)
	acts, err := openActLog(ctx, eventstore.Ledger{Store: store, Codec: codec}, ids)
	if err != nil {
		return nil, errors.Join(err, views.Close())
	}
	acts.ledger = ledger
	deliveries, err := openDeliveries(d, o, ledger, views, ids, opened.node != nil)
	if err != nil {
		return nil, errors.Join(err, views.Close())
	}
	at, err := store.Last(ctx)
	if err != nil {
		return nil, errors.Join(err, deliveries.close(), views.Close())
	}
	readers, err := consumers.Open(consumers.Config{
		File: d.Consumers(), Write: datadir.WriteFileSynced, LogID: store.LogID(), Last: at, IDs: ids,
		Known: func() []installation.Consumer { return acts.now().Consumers },
	})
	if err != nil {
		return nil, errors.Join(cli.Errorf(cli.ExitDirectory, "%w", err), deliveries.close(), views.Close())
	}
	times := openKeyTimes(d.KeyTimes(), o.Log)
	runCtx, stopViews := context.WithCancel(context.WithoutCancel(ctx))
	stopping, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &core{
		dir: d, log: o.Log, store: store, node: opened.node, closeLog: opened.Close, views: views, links: links, cookies: cookies, signed: signed,
		ledger: ledger, ids: ids, acts: acts, deliveries: deliveries, consumers: readers, keyTimes: times, tracer: o.Tracer, seed: seed,
		stopping: stopping, stop: stop, stopViews: stopViews, viewsDone: make(chan error, 1),
	}
	if opened.node != nil {
		if err := signed.Witness(nodewitness.Config{Node: opened.node}); err != nil {
			return nil, errors.Join(err, deliveries.close(), views.Close())
		}
	}
	go func() { c.viewsDone <- views.Run(runCtx) }()
	signed.Begin()
	c.beside.Go(func() { times.Run(runCtx) })
	if o.Metrics != nil {
		c.beside.Go(func() { c.scrub(runCtx, erasures) })
	}
	return c, nil
}

// logTrouble logs faults of the event log that are found while it is in use, with
// advice.
func logTrouble(log zerolog.Logger) func(error) {
	return func(err error) {
		e := log.Error().Err(err)
		switch {
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
func (c *core) ready() error { return errors.Join(c.store.Suspended(), c.store.Err()) }

// watchLog keeps metrics of the log's faults.
func (c *core) watchLog(m prometheus.Registerer) {
	for name, g := range map[string]struct {
		help string
		is   func() bool
	}{
		"payledger_log_suspended": {
			"1 while nothing more is recorded, because the event log is damaged or its file is not at its place.",
			func() bool { return c.ready() != nil },
		},
		"payledger_log_damaged": {"1 when damage to the event log was found since the start.", c.store.Damaged},
	} {
		m.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: g.help}, func() float64 {
			if g.is() {
				return 1
			}
			return 0
		}))
	}
}

// close signs the last checkpoint, flushes the projections
// and closes the log, in this order.
func (c *core) close() error {
	c.signed.Finish()
	c.stop()
	closed := c.deliveries.close()
	c.stopViews()
	err := <-c.viewsDone
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	c.beside.Wait()
	return errors.Join(closed, err, c.consumers.Save(), c.views.Close(), c.closeLog())
}

// merchantConfig is what both HTTP handlers need of the core.
func (c *core) merchantConfig() merchant.Config {
	return merchant.Config{
		KeyTimes: c.keyTimes, Ledger: c.ledger, Views: c.views, IDs: c.ids, Links: c.links,
		Checkpoint: c.signed.Checkpoint, Webhooks: c.deliveries, Stopping: c.stopping, Tracer: c.tracer,
	}
}

// adminHandler serves the admin interface. The configuration names what only a
// running server has; the rest is filled in.
func (c *core) adminHandler(running httpadmin.Config) (http.Handler, error) {
	config := running
	config.Config = c.merchantConfig()
	config.Sandbox, config.PublicURL = running.Sandbox, "http://payledger"
	config.Log, config.Backup, config.Consumers, config.Record, config.Settling = c.log, c.store.Backup, c.consumers, c.acts.record, &c.settling
	return httpadmin.New(config)
}
