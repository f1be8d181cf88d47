package replog

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// What nodes ask each other over HTTP. Only peers may reach it.
//
//	GET  status  ?from=NODE&began=MILLISECONDS&start=ID -> Status in JSON, unless another process of
//	             that node asks too that began before, by the node's clock
//	POST end     ?log=INCARNATION -> the file's end, as POSITION and SHA-256: the asking node
//	             becomes the leader. From the answer on nothing of another incarnation is added
//	POST yield   ?to=NODE -> nothing: the leader has made that node the leader
//	GET  records ?after=POSITION&ready=BOOL -> the SHA-256 of the record there, and the records
//	             after it, each as in a message of LOG; a zero follows the last one.
//	             With ready, only while the node is the leader.
const (
	pathStatus  = "/status"
	pathEnd     = "/end"
	pathYield   = "/yield"
	pathRecords = "/records"

	askTime     = 3 * time.Second
	maxStatus   = 16 << 10
	copyRecords = 4096 // records of a transaction
	copyBytes   = 4 << 20
	copyStall   = 20 * time.Second // for the next record of a copy
)

// Handler answers the peers.
func (s *Store) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathStatus, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		began, _ := strconv.ParseInt(q.Get("began"), 10, 64)
		if s.twice(q.Get("from"), process{began, q.Get("start")}) {
			http.Error(w, ErrTwice.Error(), http.StatusConflict)
			return
		}
		_ = json.MarshalWrite(w, s.Status()) // a peer that is gone asks again
	})
	mux.HandleFunc("POST "+pathEnd, s.serveEnd)
	mux.HandleFunc("POST "+pathYield, func(w http.ResponseWriter, r *http.Request) {
		if err := s.Yield(r.Context(), r.URL.Query().Get("to")); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	mux.HandleFunc("GET "+pathRecords, s.serveRecords)
	return mux
}

// ErrTwice stops the second of two processes of one node.
var ErrTwice = errors.New("another process serves this node, or a copy of its directory: stop one of the two")

const (
	forgetAfter = 5 * time.Second  // what a process that has ended said
	twiceFor    = 10 * time.Second // before the second of two processes stops
)

// process is one of those that serve a node: when it began, in milliseconds, and its Config.Start.
type process struct {
	began int64
	start string
}

func (p process) compare(q process) int {
	return cmp.Or(cmp.Compare(p.began, q.began), strings.Compare(p.start, q.start))
}

// asker is the process that a node's questions came from last.
type asker struct {
	process
	at time.Time
}

// twice reports whether another process of the node that began before has asked not long ago. So all
// peers refuse the same one, also of two that began to ask each of them in another order.
func (s *Store) twice(node string, p process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.askers[node]
	if p.compare(before.process) > 0 && time.Since(before.at) < forgetAfter {
		return true
	}
	s.askers[node] = asker{p, time.Now()}
	return false
}

// Twice is closed when this process has stopped because another one serves the same node.
func (s *Store) Twice() <-chan struct{} { return s.twiceServed }

func (s *Store) serveEnd(w http.ResponseWriter, r *http.Request) {
	reply := make(chan *bolt.Tip, 1)
	s.mu.Lock()
	s.last++
	s.asked[s.last] = reply
	s.step(asked{s.last, r.URL.Query().Get("log")})
	s.mu.Unlock()
	select {
	case tip := <-reply:
		if tip == nil {
			http.Error(w, "this node takes no part any more", http.StatusConflict)
			return
		}
		_, _ = fmt.Fprintf(w, "%d %x", tip.Last, tip.Sum)
	case <-r.Context().Done():
	case <-s.ctx.Done():
	}
}

// ask asks a peer where its file ends; nil: it does not say.
func (s *Store) ask(x ask) *bolt.Tip {
	ctx, cancel := context.WithTimeout(s.ctx, askTime)
	defer cancel()
	body, err := Request(ctx, s.config.Client, http.MethodPost, s.config.Peers[x.peer]+pathEnd+"?log="+url.QueryEscape(x.log), nil)
	if err != nil {
		return nil
	}
	defer func() { _ = body.Close() }()
	var tip bolt.Tip
	var sum []byte
	if _, err := fmt.Fscanf(body, "%d %x", &tip.Last, &sum); err != nil || len(sum) != len(tip.Sum) {
		return nil
	}
	tip.Sum = [32]byte(sum)
	return &tip
}

// Request asks a node something. An answer that is not 200 is an error, with what the node says.
func Request(ctx context.Context, c *http.Client, method, url string, body []byte) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body)) //nolint:gosec // the address is a peer's
	if err != nil {
		return nil, err
	}
	reply, err := c.Do(r) //nolint:gosec // likewise
	if err != nil {
		return nil, err
	}
	if reply.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(reply.Body, 1<<10))
		why = bytes.TrimSpace(why)
		err := fmt.Errorf("%s: %s", reply.Status, why)
		if string(why) == ErrTwice.Error() {
			err = ErrTwice
		}
		return nil, errors.Join(err, reply.Body.Close())
	}
	return reply.Body, nil
}

func (s *Store) serveRecords(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64)
	after := eventstore.Position(n)
	last, lastErr := s.Last(r.Context())
	switch {
	case err != nil || lastErr != nil || after > last:
		http.Error(w, fmt.Sprintf("this node's event log ends at position %d", last), http.StatusConflict)
		return
	case r.URL.Query().Get("ready") == "true" && !s.Status().Ready:
		http.Error(w, "this node is not the leader", http.StatusConflict)
		return
	}
	for out := []byte(nil); ; out = out[:0] {
		b, err := s.BatchAfter(r.Context(), after)
		if err != nil {
			s.report(err)
			panic(http.ErrAbortHandler)
		}
		if out == nil {
			out = append(out, b.After.Sum[:]...)
		}
		for i, r := range b.Records {
			out = appendRecord(out, r, b.DetailsOf(i))
		}
		if len(b.Records) == 0 {
			out = append(out, 0)
		}
		if _, err := w.Write(out); err != nil || len(b.Records) == 0 {
			return
		}
		after += eventstore.Position(len(b.Records))
	}
}

// Copy adds a peer's records to a file, from behind its end on until the peer has no
// more, and answers where the file then ends, also with an error. With ready it fails
// unless the peer is the leader.
func Copy(ctx context.Context, c *http.Client, peer string, ready bool, to *bolt.Store, progress func(eventstore.Position)) (tip bolt.Tip, err error) {
	if tip, err = to.Tip(); err != nil {
		return tip, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(copyStall, func() { cancel(fmt.Errorf("no record has come for %v", copyStall)) })
	defer stall.Stop()
	body, err := Request(ctx, c, http.MethodGet, fmt.Sprintf("%s%s?after=%d&ready=%t", peer, pathRecords, tip.Last, ready), nil)
	if err != nil {
		return tip, err
	}
	defer func() { _ = body.Close() }()
	in := bufio.NewReaderSize(body, 64<<10)
	b := bolt.Batch{After: bolt.Tip{Last: tip.Last}}
	if _, err := io.ReadFull(in, b.After.Sum[:]); err != nil {
		return tip, err
	}
	for size := 0; ; stall.Reset(copyStall) {
		r, details, err := readRecord(in, eventstore.MaxDetails)
		if err == nil && len(r) > 0 {
			b.Records, b.Details = append(b.Records, r), append(b.Details, details)
			size += len(r) + len(details)
		}
		if err != nil {
			return tip, fmt.Errorf("after position %d: %w", tip.Last, cmp.Or(context.Cause(ctx), err))
		}
		if len(r) > 0 && len(b.Records) < copyRecords && size < copyBytes {
			continue
		}
		stall.Stop() // a slow disk of this node is not the peer's silence
		end, err := to.Extend(b)
		if err != nil {
			return tip, err
		}
		tip, size, b = end, 0, bolt.Batch{After: end}
		if progress(tip.Last); len(r) == 0 {
			return tip, nil
		}
	}
}

// Status is what a node knows of itself.
type Status struct {
	Name     string              `json:"name"`
	Version  string              `json:"version"`         // of its program
	Leader   string              `json:"leader,omitzero"` // as far as it knows
	Ready    bool                `json:"ready"`           // it is the leader, and has all that was acknowledged
	Position eventstore.Position `json:"position"`        // of its file's last record
	LOG      string              `json:"log,omitzero"`    // the incarnation that it follows
	Message  uint64              `json:"message"`         // up to which it has that
	Last     uint64              `json:"last"`            // of that, as far as it knows
	GroupAt  time.Time           `json:"group_at,omitzero"`

	// Trouble is the last error that did not end the node's part, if no group came since.
	Trouble   string    `json:"trouble,omitzero"`
	TroubleAt time.Time `json:"trouble_at,omitzero"`
	// Stopped is why the node takes no part any more: its file is not a part of the
	// cluster's history and has to be made again from a peer's.
	Stopped string `json:"stopped,omitzero"`
	// Unfit is why the node should not lead; empty: it could.
	Unfit string    `json:"unfit,omitzero"`
	Clock time.Time `json:"clock"`
	// Silent is why the node's status is not known: then only its name is.
	Silent string `json:"silent,omitzero"`
}

// Status is this node's.
func (s *Store) Status() Status {
	position, _ := s.Last(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.m
	st := Status{
		Name: m.name, Version: s.config.Version, Leader: m.leader, Ready: m.ready && m.yields == nil, Position: position, LOG: m.place.log, Message: m.place.seq, Last: max(m.last, m.place.seq),
		GroupAt: s.groupAt, Unfit: cmp.Or(s.draining, s.unfit), Clock: s.config.Now(),
	}
	if s.troubleAt.After(s.groupAt) {
		st.Trouble, st.TroubleAt = s.trouble, s.troubleAt
	}
	if s.stopped != nil {
		st.Stopped = s.stopped.Error()
	}
	return st
}

// Statuses are those of all nodes, by name. One that does not answer is Silent.
func (s *Store) Statuses(ctx context.Context) []Status {
	all := append(s.askPeers(ctx), s.Status())
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// askPeers asks the peers for their status.
func (s *Store) askPeers(ctx context.Context) []Status {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	all := make([]Status, len(s.m.peers))
	var asking sync.WaitGroup
	for i, p := range s.m.peers {
		asking.Go(func() {
			body, err := Request(ctx, s.config.Client, http.MethodGet, fmt.Sprintf("%s%s?from=%s&began=%d&start=%x", s.config.Peers[p], pathStatus, s.m.name, s.began.UnixMilli(), s.m.start), nil)
			if err == nil {
				err = errors.Join(json.UnmarshalRead(io.LimitReader(body, maxStatus), &all[i]), body.Close())
			}
			if err != nil {
				all[i] = Status{Silent: err.Error()}
			}
			all[i].Name = p
			if errors.Is(err, ErrTwice) {
				s.doubled.Store(true)
			}
		})
	}
	asking.Wait()
	return all
}

// MaxAhead is by how much a leader's clock may differ from those of both peers.
const MaxAhead = 500 * time.Millisecond

// watch looks how the peers are, and whether this node should lead.
func (s *Store) watch() {
	asked := s.config.Now()
	peers := s.askPeers(s.ctx)
	answered := s.config.Now()
	least, most := time.Duration(math.MaxInt64), time.Duration(math.MinInt64) // by which this clock is ahead, however long the answers took
	compared := len(peers) > 0
	for _, p := range peers {
		compared = compared && p.Silent == ""
		least, most = min(least, asked.Sub(p.Clock)), max(most, answered.Sub(p.Clock))
	}
	why := ""
	switch err := s.Refuses(); {
	case err != nil:
		why = err.Error()
	case compared && least > MaxAhead:
		why = fmt.Sprintf("its clock is %v ahead of those of all others", least.Round(time.Millisecond))
	case compared && most < -MaxAhead:
		why = fmt.Sprintf("its clock is %v behind those of all others", -most.Round(time.Millisecond))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers, s.unfit = peers, why
	s.step(fitness{s.draining+why != ""})
	switch doubled := s.doubled.Swap(false); {
	case !doubled:
		s.doubledSince = time.Time{}
	case s.doubledSince.IsZero():
		s.doubledSince = time.Now()
	case time.Since(s.doubledSince) > twiceFor && s.stopped == nil:
		s.step(stopping{ErrTwice})
	}
}
