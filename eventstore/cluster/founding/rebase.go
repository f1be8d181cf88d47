package founding

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// Verb ends the subject at which a node tells its Standing:
//
//	positions (8 each, big-endian) -> Standing in JSON, with the sums at these positions
const Verb = ".standing"

const (
	// Lost is how long the servers must have said that there is no LOG.
	Lost = 10 * time.Second

	askTime       = 3 * time.Second
	askAgain      = 250 * time.Millisecond
	maxStanding   = 16 << 10 // of an answer, in bytes
	maxPositions  = 16
	positionBytes = 8
	maxGroup      = 1 << 60
)

// Standing is how far a member has come.
type Standing struct {
	Node    string              `json:"node"`
	Ledger  domain.ID           `json:"ledger"`           // the id of the event log
	Follows domain.ID           `json:"follows"`          // the id of the LOG that the file follows; zero: none
	Group   uint64              `json:"group"`            // the last one that the node has
	First   eventstore.Position `json:"first"`            // of that group's first record; where it has none, the next one
	Before  string              `json:"before"`           // SHA-256 of the record before that, in hexadecimal
	Last    eventstore.Position `json:"last"`             // of the file's last record
	Sums    []string            `json:"sums,omitzero"`    // of the records that were asked for; empty: the file ends before
	Stopped string              `json:"stopped,omitzero"` // why the node takes no part any more

	// MissingMillis is how long the servers have said that there is no LOG.
	MissingMillis int64 `json:"missing_ms"`
}

// StandingOf is the standing of a node whose file has the groups up to this one.
func StandingOf(ctx context.Context, file *bolt.Store, group uint64, question []byte) (s Standing, err error) {
	if len(question) > maxPositions*positionBytes || len(question)%positionBytes != 0 {
		return s, errors.New("the question makes no sense")
	}
	r, err := file.Replica()
	if err != nil {
		return s, err
	}
	first, before, err := file.End()
	if err != nil {
		return s, err
	}
	switch g, ok, err := file.Group(ctx, group); {
	case err != nil:
		return s, err
	case ok:
		first, before = g.First, g.Before
	}
	s = Standing{Ledger: file.LogID(), Follows: r.Log, Group: group, First: first, Before: hex.EncodeToString(before[:]), Last: r.Last}
	for q := range slices.Chunk(question, positionBytes) {
		sum := ""
		if p := eventstore.Position(binary.BigEndian.Uint64(q)); p <= r.Last {
			at, err := file.Sum(p)
			if err != nil {
				return s, err
			}
			sum = hex.EncodeToString(at[:])
		}
		s.Sums = append(s.Sums, sum)
	}
	return s, nil
}

// A RefusalError says why LOG is not made anew, and what to do.
type RefusalError struct{ Why string }

func (e *RefusalError) Error() string { return e.Why }

func refuse(format string, args ...any) error { return &RefusalError{fmt.Sprintf(format, args...)} }

// Rebase makes LOG anew if the servers have lost it, and answers what it begins behind. While
// members are silent, or servers may only just have started, it tries again until ctx ends.
// Nodes answer at PREFIX.NODE.standing. If it fails with a *RefusalError, nothing was done.
func Rebase(ctx context.Context, c *nats.Conn, log domain.ID, prefix string, nodes []string) (b Base, err error) {
	js, err := jetstream.New(c)
	if err != nil {
		return b, err
	}
	for tried := false; ; {
		vacant := Vacant(ctx, js)
		switch {
		case !errors.Is(vacant, ErrForeign):
		case tried:
			return b, nil // the answer was lost
		default:
			return b, refuse("the NATS servers have LOG, and it is left as it is. \"payledger cluster status\" says what the nodes wait for")
		}
		most, wait, err := once(ctx, c, prefix, nodes)
		if err != nil {
			return b, err
		}
		if wait = cmp.Or(wait, vacant); wait == nil {
			b = Base{most.Ledger, log, most.First - 1, most.Before, max(most.Group, 1) - 1}
			if wait, tried = remake(ctx, js, b), true; wait == nil {
				return b, nil
			}
		}
		select {
		case <-ctx.Done():
			return b, wait
		case <-time.After(askAgain):
		}
	}
}

func remake(ctx context.Context, js jetstream.JetStream, b Base) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
	defer cancel()
	if _, err := Make(ctx, js, b); err != nil {
		return fmt.Errorf("the NATS servers have not made LOG, as far as is known: %w", err)
	}
	return nil
}

// once asks all members twice, how far they have come and whether one file is the
// beginning of the other. wait may pass.
func once(ctx context.Context, c *nats.Conn, prefix string, nodes []string) (most Standing, wait, err error) {
	all, wait := askAll(ctx, c, prefix, nodes, nil)
	if wait != nil {
		return most, wait, nil
	}
	var ends []byte
	for _, s := range all {
		ends = binary.BigEndian.AppendUint64(ends, uint64(s.Last))
	}
	again, wait := askAll(ctx, c, prefix, nodes, ends)
	if wait != nil {
		return most, wait, nil
	}
	for i, s := range again {
		if len(s.Sums) != len(all) || s.Last != all[i].Last || s.Group != all[i].Group {
			return most, refuse("node %s gets events just now: try again", s.Node), nil
		}
	}
	return longestPrefix(again)
}

func askAll(ctx context.Context, c *nats.Conn, prefix string, nodes []string, question []byte) ([]Standing, error) {
	all, errs := make([]Standing, len(nodes)), make([]error, len(nodes))
	var asked sync.WaitGroup
	for i, n := range nodes {
		asked.Go(func() { all[i], errs[i] = Ask(ctx, c, prefix, n, question) })
	}
	asked.Wait()
	var silent []string
	for i, n := range nodes {
		if errs[i] != nil {
			silent = append(silent, n)
		}
	}
	if len(silent) > 0 {
		return nil, refuse("no answer from node %s: LOG would go on without what only that node has. Serve all nodes, with one version of payledger; "+
			"a node that is lost for good has to be made anew first (payledger cluster rebase --help)", strings.Join(silent, " and node "))
	}
	return all, nil
}

// Ask asks a member.
func Ask(ctx context.Context, c *nats.Conn, prefix, node string, question []byte) (s Standing, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	reply, err := c.RequestWithContext(ctx, prefix+node+Verb, question)
	if err != nil {
		return s, err
	}
	if len(reply.Data) > maxStanding {
		return s, fmt.Errorf("node %s: its answer has %d bytes", node, len(reply.Data))
	}
	err = json.Unmarshal(reply.Data, &s)
	s.Node = node
	return s, err
}

// longestPrefix returns the member with the longest log. Each member's Sums are its hashes at
// every member's end, and must agree.
func longestPrefix(all []Standing) (most Standing, wait, err error) {
	followed, of := domain.ID{}, ""
	for _, s := range all {
		switch {
		case s.Stopped != "":
			return most, nil, refuse("node %s takes no part any more: %s. Make it anew first (payledger cluster rebase --help)", s.Node, s.Stopped)
		case s.Group > maxGroup || s.First == 0 || s.First > s.Last+1:
			return most, nil, refuse("node %s says that it has group %d and position %d, which makes no sense: make it anew first", s.Node, s.Group, s.Last)
		case s.Ledger != all[0].Ledger:
			return most, nil, refuse("node %s has the event log %s, node %s has %s", s.Node, s.Ledger, all[0].Node, all[0].Ledger)
		case s.Follows.IsZero():
		case followed.IsZero():
			followed, of = s.Follows, s.Node
		case s.Follows != followed:
			return most, nil, refuse("node %s follows LOG %s, node %s follows LOG %s", s.Node, s.Follows, of, followed)
		}
		if !s.Follows.IsZero() && (most.Node == "" || s.Group > most.Group) {
			most = s
		}
		if missing := time.Duration(s.MissingMillis) * time.Millisecond; missing < Lost {
			wait = refuse("node %s has been told for %v that there is no LOG, and it takes %v to be sure: try again", s.Node, missing.Round(time.Second), Lost)
		}
	}
	if followed.IsZero() {
		return most, nil, refuse("no node follows a LOG yet: the cluster has not begun, and begins once all three are served")
	}
	for i, s := range all {
		for _, longer := range all {
			if s.Last > longer.Last && s.Group <= longer.Group || s.Last <= longer.Last && s.Sums[i] != longer.Sums[i] {
				return most, nil, refuse("the logs of nodes %s and %s differ at or before position %d: find out which one is right, "+
					"and make the other node anew (payledger cluster rebase --help)", s.Node, longer.Node, min(s.Last, longer.Last))
			}
		}
	}
	return most, wait, nil
}
