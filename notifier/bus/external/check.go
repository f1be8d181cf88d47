// Package external checks whether the nodes of a cluster may keep their log on NATS
// servers of the operator's.
//
// A node of a cluster answers a payment once a majority of the servers of LOG has synced
// it. So the servers have to sync every write before they acknowledge it, which none of
// them does unless it is told to (sync_interval: always). An ordinary user cannot see
// whether they do; a user of their system account can.
package external

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/semver"

	"payledger/domain"
	"payledger/eventstore/cluster"
	"payledger/eventstore/cluster/lease"
	"payledger/notifier/bus"
	"payledger/notifier/delivery/replica"
	"payledger/notifier/health"
)

// Servers is what a node is told of the servers.
type Servers struct {
	bus.External

	System   []nats.Option // by which one connects as a user of the system account; nil: there is none
	LazySync bool          // servers will do that do not sync every write
}

// A RefusalError says why the servers will not do.
type RefusalError struct{ Why string }

func (e *RefusalError) Error() string { return e.Why }

func refuse(format string, args ...any) error { return &RefusalError{fmt.Sprintf(format, args...)} }

const (
	// oldest is the first version of NATS that will do: before it, messages that had been
	// acknowledged could be lost when servers were stopped and started.
	oldest = "2.15.2"

	// maxPayload is what nodes send each other in one message, in bytes.
	maxPayload = 1 << 20

	onceTime = 3 * time.Second
	pause    = 500 * time.Millisecond

	// silentTimes is how often some servers of LOG may not say whether they sync until all are
	// refused. Asking once takes a second and a half at least.
	silentTimes = 6
)

// Check waits until the servers answer and fails with a *RefusalError if no node may
// keep the log on them. report is told why it waits.
func Check(ctx context.Context, c *bus.Conn, s Servers, log domain.ID, report func(error)) error {
	silent := 0 // how often some servers have not said whether they sync
	for {
		err := once(ctx, c, s, log, report)
		if err == nil || errors.As(err, new(*RefusalError)) {
			return err
		}
		if errors.As(err, new(*silentError)) {
			silent++
		}
		if silent == silentTimes {
			return refuse("%v; start them, or accept it with --accept-lazy-sync (see its help for what that costs)", err)
		}
		report(err)
		if !health.Pause(ctx, pause) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// Recheck asks again, while the servers are in use, whether those that keep LOG sync every
// write. It asks once and waits for some seconds at most.
func Recheck(ctx context.Context, c *bus.Conn, s Servers) error {
	if s.LazySync {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, onceTime)
	defer cancel()
	if err := connected(c); err != nil {
		return err
	}
	log, err := c.JetStream().Stream(ctx, cluster.StreamName)
	if err != nil {
		return fmt.Errorf("looking for the JetStream stream LOG: %w", err)
	}
	return synced(ctx, s, c.NATS().ConnectedClusterName(), keepers(log), func(error) {})
}

func once(ctx context.Context, c *bus.Conn, s Servers, log domain.ID, report func(error)) error {
	ctx, cancel := context.WithTimeout(ctx, onceTime)
	defer cancel()
	if err := connected(c); err != nil {
		return err
	}
	nc := c.NATS()
	switch {
	case older(nc.ConnectedServerVersion(), oldest):
		return refuse("server %s has version %s, and %s is the oldest that will do", nc.ConnectedServerName(), nc.ConnectedServerVersion(), oldest)
	case nc.ConnectedClusterName() == "":
		return refuse("server %s is alone, and the log takes a cluster of at least %d servers", nc.ConnectedServerName(), s.Replicas)
	case nc.MaxPayload() < maxPayload:
		return refuse("server %s takes messages of %d bytes at most (max_payload), and nodes send up to %d", nc.ConnectedServerName(), nc.MaxPayload(), maxPayload)
	}
	// First of all, since a request without the right to make it waits for its time.
	if err := rights(ctx, nc); err != nil {
		return denied(nc, err)
	}
	keepers, err := streams(ctx, c, s, log)
	if err != nil {
		return denied(nc, err)
	}
	if s.LazySync {
		return nil
	}
	if s.System == nil {
		return refuse("only the system account of the servers tells whether they sync every write: name a user of it with --nats-system-credentials, " +
			"or accept that they may not with --accept-lazy-sync (see its help for what that costs)")
	}
	return synced(ctx, s, nc.ConnectedClusterName(), keepers, report)
}

// connected fails while there is no connection. Credentials and certificates that are not
// good enough do not become so by waiting.
func connected(c *bus.Conn) error {
	err := c.Err()
	if err == nil {
		return nil
	}
	last := c.NATS().LastError()
	for _, hopeless := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked} {
		if errors.Is(last, hopeless) {
			return refuse("the servers do not let this node in: %v", last)
		}
	}
	return err
}

// denied says which right the user lacks, if the server has said so.
func denied(nc *nats.Conn, err error) error {
	if last := nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) && !errors.As(err, new(*RefusalError)) {
		return refuse("the user lacks a right that nodes need, all of payledger.>, $JS.API.>, $JS.ACK.>, _INBOX.>, _INBOX_ledger.> and _INBOX_connector.>: %s",
			strings.TrimPrefix(last.Error(), nats.ErrPermissionViolation.Error()+": "))
	}
	return err
}

// streams looks at the JetStream streams of payledger that are there, and says which servers
// keep LOG; none: there is no LOG.
func streams(ctx context.Context, c *bus.Conn, s Servers, log domain.ID) (keep []string, err error) {
	if _, err := c.JetStream().AccountInfo(ctx); err != nil {
		if errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) {
			return nil, refuse("the user's account has no JetStream")
		}
		return nil, fmt.Errorf("asking for JetStream: %w", err)
	}
	for _, name := range append([]string{cluster.StreamName, replica.StreamName, lease.StreamName}, bus.OurStreams()...) {
		stream, err := c.JetStream().Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking for the JetStream stream %s: %w", name, err)
		}
		config := stream.CachedInfo().Config
		switch of := bus.LogOf(config); {
		case of == "":
			return nil, refuse("the JetStream stream %s was not made by payledger: give payledger an account of its own", name)
		case of != log.String():
			return nil, refuse("the JetStream stream %s holds the log %s, and this is %s: give each log an account of its own", name, of, log)
		case config.Replicas < s.Replicas:
			return nil, refuse("the JetStream stream %s is kept by %d of the servers, and it takes %d: nats stream edit %s --replicas %d",
				name, config.Replicas, s.Replicas, name, s.Replicas)
		}
		if name == cluster.StreamName {
			keep = keepers(stream)
		}
	}
	return keep, nil
}

// keepers are the names of the servers that keep a stream, as it said when it was found.
func keepers(stream jetstream.Stream) (all []string) {
	info := stream.CachedInfo().Cluster
	if info == nil {
		return nil
	}
	if info.Leader != "" {
		all = append(all, info.Leader)
	}
	for _, r := range info.Replicas {
		all = append(all, r.Name)
	}
	return all
}

// rights tries what nodes need and does nothing with it.
func rights(ctx context.Context, nc *nats.Conn) error {
	sub, err := nc.SubscribeSync("payledger.node.check")
	if err != nil {
		return err
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection ends it
	for _, subject := range []string{
		cluster.Subject, replica.Subject, lease.Subject, "payledger.sessions.check", "payledger.forms.check",
		"payledger.node.check", "payledger.v1.check", "$JS.API.STREAM.PURGE.check", "$JS.API.STREAM.MSG.GET.check",
		"$JS.API.CONSUMER.CREATE.check", "$JS.API.CONSUMER.MSG.NEXT.check.check", "$JS.API.CONSUMER.DELETE.check.check",
	} {
		// No stream has this name, so none takes the message.
		m := &nats.Msg{Subject: subject, Header: nats.Header{jetstream.ExpectedStreamHeader: {"check"}}}
		if err := nc.PublishMsg(m); err != nil {
			return err
		}
	}
	if err := nc.FlushWithContext(ctx); err != nil {
		return err
	}
	if last := nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
		return last
	}
	return nil
}

// older reports whether a version is older than another one, whatever stands behind its
// "-". What is no version is older than any.
func older(version, than string) bool {
	number, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	return semver.Compare("v"+number, "v"+than) < 0
}
