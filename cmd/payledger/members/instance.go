package members

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/notifier/health"
)

// A node's directory can be copied, and the copy be served beside the original at another
// address: two processes with one name and one key. Each process is an instance of its node,
// with an id that begins with the time. It announces itself every announceEvery, with the
// last other instance of its node that it heard of. NATS servers of one name get no route
// to each other, so each node also relays what the others announced.
//
// An announcement counts once it names the instance that receives it: then its sender ran
// after that one had begun, and the last announcement of a process that is gone ends
// nothing. Of two instances the one with the greater id ends: the one that began later. If a
// clock is wrong it may be the other one, but never both, since ids do not change. The other
// one logs it, also without being named, once those that were gone when it began are
// forgotten: the last announcement of the one that ends may be lost.
//
// Nodes trust each other's announcements, as they do all that is sent over NATS: any of them
// can end a node or hide a copy.
const (
	announceEvery = 500 * time.Millisecond
	relayTime     = 3 * time.Second // after its last announcement an instance is forgotten

	maxPlace   = 2 << 10   // bytes
	maxRelayed = 8         // instances
	maxMessage = 128 << 10 // bytes; all places that are relayed fit, however JSON escapes them
)

// announcement is what an instance says of itself. A message has that of its sender and then
// those that the sender relays.
type announcement struct {
	Node     string    `json:"node"`
	Instance domain.ID `json:"instance"`
	Other    domain.ID `json:"other,omitzero"` // the last other instance of the node that it heard of
	Place    string    `json:"place"`          // where it runs, for people
}

// instance is this process as one of its node.
type instance struct {
	*Member
	log zerolog.Logger

	// Ends when another instance goes on in the place of this one, with that as its cause, or
	// with Close.
	ctx   context.Context //nolint:containedctx // see above
	end   context.CancelCauseFunc
	began time.Time

	mu     sync.Mutex
	own    announcement
	logged domain.ID // the last other instance that the log was told of
	recent map[domain.ID]recent
}

// recent is what an instance of a peer announced last.
type recent struct {
	announcement
	at time.Time
}

func newInstance(ctx context.Context, m *Member, place string, log zerolog.Logger) *instance {
	id := domain.NewIDs(time.Now, rand.Reader, domain.ID{}).Next()
	i := &instance{Member: m, log: log, own: announcement{Node: m.Node, Instance: id, Place: place}, recent: make(map[domain.ID]recent), began: time.Now()}
	i.ctx, i.end = context.WithCancelCause(context.WithoutCancel(ctx))
	return i
}

// announce begins to announce this process and to listen for other instances.
func (n *Node) announce(ctx context.Context, d datadir.Dir) error {
	host, _ := os.Hostname()
	dir, err := filepath.Abs(string(d))
	if err != nil {
		return err
	}
	place := fmt.Sprintf("machine %.100s, directory %.200s, address %.100s", host, dir, n.listenAddress())
	n.instance = newInstance(ctx, n.Member, strings.ToValidUTF8(place, "?"), n.log)
	nc, subject := n.Conn.NATS(), "payledger.node."+n.Cluster.String()+".instances"
	sub, err := nc.Subscribe(subject, func(m *nats.Msg) { n.instance.take(m.Data) })
	if err == nil {
		err = sub.SetPendingLimits(maxWaiting, waitingSize)
	}
	if err != nil {
		return fmt.Errorf("waiting for announcements of other nodes: %w", err)
	}
	n.announcing.Go(func() {
		defer sub.Unsubscribe() //nolint:errcheck // the connection is closed next
		say := func() {
			if b, err := n.instance.message(); err != nil {
				n.Report(fmt.Errorf("announcing this node: %w", err))
			} else {
				_ = nc.Publish(subject, b) // it is announced again
			}
		}
		for health.Pause(n.instance.ctx, announceEvery) {
			say()
		}
		if n.instance.duplicate() { // the instance that goes on may not have heard of this one
			say()
			_ = nc.FlushTimeout(announceEvery)
		}
	})
	return nil
}

// Duplicate ends when another process that serves this node goes on in the place of this
// one; its cause says so.
func (n *Node) Duplicate() context.Context { return n.instance.ctx }

func (i *instance) duplicate() bool {
	return i.ctx.Err() != nil && !errors.Is(context.Cause(i.ctx), context.Canceled)
}

// message is what is announced.
func (i *instance) message() ([]byte, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.forget()
	all := []announcement{i.own}
	for _, r := range i.recent {
		all = append(all, r.announcement)
	}
	return json.Marshal(all)
}

// take takes up a message.
func (i *instance) take(b []byte) {
	var all []announcement
	if len(b) > maxMessage || json.Unmarshal(b, &all) != nil || len(all) > 1+maxRelayed {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for at, a := range all {
		_, member := i.member(a.Node)
		switch {
		case !member || len(a.Place) > maxPlace || a.Instance == i.own.Instance:
		case a.Node == i.Node:
			i.meets(a)
		case at == 0: // nothing is relayed twice
			i.forget()
			if _, known := i.recent[a.Instance]; known || len(i.recent) < maxRelayed {
				i.recent[a.Instance] = recent{a, time.Now()}
			}
		}
	}
}

// meets takes up what another instance of this node announces.
func (i *instance) meets(a announcement) {
	i.own.Other = a.Instance
	named, later := a.Other == i.own.Instance, a.Instance.Compare(i.own.Instance) > 0
	switch {
	case !named && (!later || time.Since(i.began) <= relayTime+announceEvery): // it may be gone
	case !later:
		i.end(cli.Errorf(cli.ExitDirectory, "node %s is served twice: another process, which began earlier, serves it too (%q); this one ends. "+
			"Remove its directory if that is a copy; if the node was moved here, stop the other process, then start this one again", i.Node, a.Place))
	case a.Instance != i.logged:
		i.logged = a.Instance
		i.log.Error().Str("node", i.Node).Str("other", a.Place).
			Msg("this node is served twice: another process serves it from a copy of its directory; that one began later and ends")
	}
}

func (i *instance) forget() {
	maps.DeleteFunc(i.recent, func(_ domain.ID, r recent) bool { return time.Since(r.at) > relayTime })
}
