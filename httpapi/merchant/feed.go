package merchant

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"

	"github.com/go-json-experiment/json"
)

const (
	MaxFeeds     = 10 // of one project at once
	maxFeedLimit = 1_000_000
)

// feedQuery is what of a project's events is asked for.
type feedQuery struct {
	after eventstore.Position
	named string // what named it
	limit int    // 0: none
	live  bool   // go on with new events as they come
}

// feed answers GET /v1/events: the events of the project's payments and
// refunds after a position, in the order of the log. As JSON lines it ends with
// the newest event; as server-sent events it goes on. Events of the project
// itself are left out: they hold hashes of API keys.
func (a *API) Feed(x *edge.Exchange) error {
	q, err := parseFeed(x.Request)
	if err != nil {
		return err
	}
	last, err := a.cfg.Ledger.Store.Last(x.Context())
	if err != nil {
		return err
	}
	if q.after > last {
		return edge.BadParameter(q.named, "The log ends before this position. Begin again from one you know, or from 0.")
	}
	leave, ok := a.feeds.enter(x.Project.ID, MaxFeeds)
	if !ok {
		return wire.Problem{
			Code: domain.RateLimited, Detail: fmt.Sprintf("The project reads %d feeds of events already. End one of them, then begin another.", MaxFeeds),
		}.With("Retry-After", "15")
	}
	defer leave()
	x.Header().Add("Vary", "Accept")
	f := &feed{API: a, x: x, query: q}
	if !q.live {
		f.out = x.Stream(edge.JSONLines)
		if x.Request.Method == http.MethodHead {
			return nil
		}
		return f.lines()
	}
	f.out = x.Stream(edge.EventStream)
	if x.Request.Method == http.MethodHead {
		return nil
	}
	return f.events()
}

// parseFeed reads the query and the headers. Last-Event-ID is what a client
// that lost its connection saw last, so it wins over where it once began.
func parseFeed(r *http.Request) (feedQuery, error) {
	var f feedQuery
	q, err := edge.ParseQuery(r.URL.RawQuery, "after", "limit")
	if err != nil {
		return f, err
	}
	f.live, f.named = edge.Accepts(r.Header, edge.EventStream), "after"
	if q.Has("after") {
		if f.after, err = afterPosition("after", q.Value("after")); err != nil {
			return f, err
		}
	}
	if q.Has("limit") {
		f.limit, err = strconv.Atoi(q.Value("limit"))
		if err != nil || f.limit < 1 || f.limit > maxFeedLimit || strconv.Itoa(f.limit) != q.Value("limit") {
			return f, edge.BadParameter("limit", "Send a whole number from 1 to 1000000, or leave it away for all events.")
		}
	}
	if lines := r.Header.Values("Last-Event-ID"); f.live && len(lines) > 0 && lines[0] != "" {
		f.named = "Last-Event-ID"
		if f.after, err = afterPosition(f.named, lines[0]); err != nil {
			return f, err
		}
	}
	return f, nil
}

func afterPosition(name, text string) (eventstore.Position, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || strconv.FormatUint(n, 10) != text {
		return 0, edge.BadParameter(name, "Send the position of the last event you have, 0 for none.")
	}
	return eventstore.Position(n), nil
}

// feed is one answer with a project's events.
type feed struct {
	*API
	x     *edge.Exchange
	out   *edge.Stream
	query feedQuery
	sent  int
}

// lines writes JSON lines up to the newest event there is.
func (f *feed) lines() error {
	ctx, cancel := f.x.UntilStopping(f.cfg.Stopping)
	defer cancel()
	filter := eventstore.Filter{Project: f.x.Project.ID, Kind: eventstore.KindPayment}
	for r, err := range f.cfg.Ledger.Store.Scan(ctx, f.query.after, filter) {
		if err == nil {
			err = f.recheck(f.x)
		}
		if err != nil {
			return err
		}
		line, err := LineOf(r)
		if err != nil {
			return err
		}
		if _, err := f.out.Write(append(line, '\n')); err != nil {
			return err
		}
		if f.full() {
			break
		}
	}
	return f.out.Flush()
}

// full counts one more event and reports whether it was the last one wanted.
func (f *feed) full() bool {
	f.sent++
	return f.sent == f.query.limit
}

func LineOf(r eventstore.Stored) ([]byte, error) {
	return json.Marshal(wire.EventLine{Position: uint64(r.Position), Event: r.Body}, edge.AsWritten())
}

// reconnectAfter is how soon a client whose connection broke should come back,
// in milliseconds.
const reconnectAfter = 2000

// events writes server-sent events until the client leaves, the server stops
// or the key may no longer read. It follows the events of the project itself
// too, so that a revoked key's feed ends with the revocation.
func (f *feed) events() error {
	ctx, cancel := f.x.UntilStopping(f.cfg.Stopping)
	defer cancel()
	// Follow waits until a record is taken, so nothing piles up.
	records := make(chan eventstore.Stored)
	var followed error
	go func() {
		defer close(records)
		filter := eventstore.Filter{Project: f.x.Project.ID}
		followed = f.cfg.Ledger.Store.Follow(ctx, f.query.after, filter, func(r eventstore.Stored) error {
			select {
			case records <- r:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	err := f.pump(records)
	cancel()
	for range records { // until the follower has ended
	}
	if err == nil && !errors.Is(followed, eventstore.ErrClosed) && !errors.Is(followed, context.Canceled) {
		err = followed
	}
	return errors.Join(err, f.out.Flush())
}

// pump writes what comes until it ends or the feed has to.
func (f *feed) pump(records <-chan eventstore.Stored) error {
	if _, err := fmt.Fprintf(f.out, "retry: %d\n\n", reconnectAfter); err != nil {
		return err
	}
	if err := f.out.Flush(); err != nil {
		return err
	}
	heartbeat := time.NewTicker(f.cfg.Heartbeat)
	defer heartbeat.Stop()
	for {
		var r eventstore.Stored
		more := true
		select {
		case r, more = <-records:
		case <-heartbeat.C:
		}
		if !more {
			return nil
		}
		err := f.recheck(f.x)
		if _, over := errors.AsType[wire.Problem](err); over {
			return nil // a client that comes back is told why
		}
		if err != nil {
			return err
		}
		switch {
		case r.Position == 0:
			_, err = f.out.Write([]byte(": \n\n"))
		case r.Stream.Kind != eventstore.KindPayment:
			continue
		default:
			err = f.send(r)
		}
		if err != nil || (r.Position != 0 && f.full()) {
			return err
		}
		if err := f.out.Flush(); err != nil {
			return err
		}
	}
}

// send writes one event. Stored lines have no line breaks.
func (f *feed) send(r eventstore.Stored) error {
	line, err := LineOf(r)
	if err != nil {
		return err
	}
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(r.Body, &head); err != nil {
		return &eventstore.CorruptError{Position: r.Position, Reason: err.Error()}
	}
	_, err = fmt.Fprintf(f.out, "id: %d\nevent: %s\ndata: %s\n\n", r.Position, head.Type, line)
	return err
}
