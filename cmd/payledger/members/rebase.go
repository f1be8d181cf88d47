package members

import (
	"context"
	"time"

	"payledger/eventstore/cluster"
	"payledger/notifier/bus"
)

// rebaseTime is how long it is tried to make LOG anew. It is longer than the servers have to
// have said that there is none.
const rebaseTime = 20 * time.Second

// Rebase makes LOG anew if the servers have lost it: see package founding. The error says why
// it does not.
func (n *Node) Rebase(ctx context.Context, actor string) error {
	ctx, cancel := context.WithTimeout(ctx, rebaseTime)
	defer cancel()
	var all []string
	for _, m := range n.Members {
		all = append(all, m.Name)
	}
	b, err := cluster.Rebase(ctx, n.Conn.NATS(), n.Cluster, all)
	if err != nil {
		return err
	}
	n.log.Warn().Str("actor", actor).Uint64("group", b.Group+1).Uint64("position", uint64(b.Last)).
		Msg("LOG was lost and has been made anew: it begins with this group, behind this position")
	// All servers are up now, which it takes to make a stream: those that the workers need and
	// that were lost too are not left for later.
	if err := bus.MakeStreams(ctx, n.Conn, b.Ledger); err != nil {
		n.log.Warn().Err(err).Msg("the other JetStream streams are not all there yet")
	}
	return nil
}
