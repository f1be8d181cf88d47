package members

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/cli"
	"payledger/notifier/bus"
	"payledger/notifier/bus/admission"
	"payledger/notifier/bus/external"
	"payledger/notifier/health"
)

// foreignServers is the application protocol of a node whose NATS servers are the
// operator's, as TLS negotiates it at the node's address.
const foreignServers = "payledger-nats-url"

// connect connects the node to the operator's servers.
func (n *Node) connect(log zerolog.Logger) (err error) {
	if n.shown, err = n.present(log); err != nil {
		return err
	}
	n.NATS.Replicas = size
	if n.Conn, err = bus.Connect(n.NATS.External, log); err != nil {
		return cli.Errorf(cli.ExitUsage, "--nats-url: %w", err)
	}
	return nil
}

// CheckServers waits for the operator's servers, and refuses them if the log cannot be kept
// there. What was accepted is not asked for again.
func (n *Node) CheckServers(ctx context.Context, log zerolog.Logger) error {
	if n.Server != nil || n.checked {
		return nil
	}
	err := external.Check(ctx, n.Conn, n.NATS, n.Ledger, func(err error) { n.Report(fmt.Errorf("waiting for NATS: %w", err)) })
	if errors.As(err, new(*external.RefusalError)) {
		return cli.Errorf(cli.ExitUsage, "--nats-url: %w", err)
	}
	n.checked = err == nil
	if err == nil && n.NATS.LazySync {
		log.Warn().Msg("the NATS servers may not sync every write (--accept-lazy-sync): when they lose power together they forget payments that were answered")
	}
	return err
}

const (
	// recheckEvery is how often a node asks whether the servers still sync every write,
	// recheckSoon how soon it asks again where that is not known, or they do not.
	recheckEvery = time.Minute
	recheckSoon  = 10 * time.Second
)

// watchServers warns, until ctx ends, while a server that keeps LOG does not sync every
// write, or does not say whether it does: one that was down may come back as another one.
func (n *Node) watchServers(ctx context.Context, log zerolog.Logger) {
	for failed, wait := 0, time.Duration(0); health.Pause(ctx, wait); {
		err := external.Recheck(ctx, n.Conn, n.NATS)
		wait = recheckEvery
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failed = 0
			n.Store.Warn("")
		default:
			failed++
			wait = recheckSoon
			if failed == 1 && !errors.As(err, new(*external.RefusalError)) {
				break // a server may only be slow
			}
			if err := fmt.Errorf("NATS servers: %w", err); err.Error() != n.Store.Warning() {
				log.Error().Err(err).Msg("answered payments may be lost if the NATS servers lose power together")
				n.Store.Warn(err.Error())
			}
		}
	}
}

// present shows the node's certificate at its address, as its own NATS server would. So
// no second process can serve the node, and those who ask there see that it runs.
func (m *Member) present(log zerolog.Logger) (end func() error, err error) {
	conf, err := m.TLS()
	if err != nil {
		return nil, err
	}
	conf.NextProtos = []string{foreignServers}
	l, err := m.listen()
	if err != nil {
		return nil, err
	}
	bounded := admission.New(l, "node", log)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := bounded.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				_ = conn.SetDeadline(time.Now().Add(presentTime))
				_ = tls.Server(conn, conf).HandshakeContext(context.Background())
				_ = conn.Close()
			})
		}
	})
	return func() error {
		err := bounded.Close()
		all.Wait()
		return err
	}, nil
}

// presentTime is how long a handshake may take.
const presentTime = time.Second
