package nodelanes

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"payledger/notifier/delivery/replica"
	"payledger/notifier/delivery/store"
)

// kindEntries is that of the question how many entries a node's lane file has that finds
// no LANES. The answer is the number (8, big-endian).
const kindEntries = "lane-entries"

// entriesTime is how long the answer is waited for.
const entriesTime = time.Second

// find finds LANES, or makes it if it is to begin with this node's file. late: nobody is
// waited for any more. The error is replica.ErrMissing if it is not, and replica.ErrBehind
// besides if another node's file has more.
func (l *Lanes) find(ctx context.Context, f *store.File, late bool) (*replica.Lanes, error) {
	all, err := replica.Open(ctx, l.replica(), f, false)
	if !errors.Is(err, replica.ErrMissing) {
		l.lacking.Store(nil)
		return all, err
	}
	at, fileErr := f.Shared()
	if fileErr != nil {
		return nil, fileErr
	}
	l.lacking.Store(&at.Number)
	first := l.node.Members[0].Name
	switch most, known := l.entries(ctx); {
	case most > at.Number:
		return nil, fmt.Errorf("%w, and %w: this one has entry %d, that of another node entry %d", err, replica.ErrBehind, at.Number, most)
	case late, at.Number == 0 && l.node.Node == first, at.Number > 0 && known:
		return replica.Open(ctx, l.replica(), f, true)
	case at.Number == 0:
		return nil, fmt.Errorf("%w: node %s is to begin it, which knows what was sent before the cluster began. Routing and webhooks wait for it; "+
			"%v after a node became the sequencer, that one begins LANES without it, and each endpoint is sent the newest event of every payment again",
			err, first, lostAfter)
	}
	return nil, fmt.Errorf("%w, because it was lost: the node whose lane file has most begins it anew. Routing and webhooks wait until all nodes have told what theirs have, "+
		"and %v after a node became the sequencer for no one any more", err, lostAfter)
}

// entries is the most entries that the files of the other nodes have; known: all have told.
func (l *Lanes) entries(ctx context.Context) (most uint64, known bool) {
	ctx, cancel := context.WithTimeout(ctx, entriesTime)
	defer cancel()
	peers := l.node.Peers()
	numbers := make([]uint64, len(peers))
	errs := make([]error, len(peers))
	var asked sync.WaitGroup
	for i, p := range peers {
		asked.Go(func() {
			var b []byte
			if b, errs[i] = l.node.Ask(ctx, p.Name, kindEntries, nil); len(b) == 8 {
				numbers[i] = binary.BigEndian.Uint64(b)
			} else if errs[i] == nil {
				errs[i] = errors.New("it is no number")
			}
		})
	}
	asked.Wait()
	for _, n := range numbers {
		most = max(most, n)
	}
	return most, errors.Join(errs...) == nil
}

// tellEntries answers the question for entries; empty: this node has LANES, or does not know.
func (l *Lanes) tellEntries(context.Context, []byte) []byte {
	n := l.lacking.Load()
	if n == nil {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, *n)
}
