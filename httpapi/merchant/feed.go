package merchant

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// Bounds of feeds.
const (
	MaxFeeds     = 10 // feeds that one project reads at once
	maxFeedLimit = 1_000_000
)

// FeedQuery is what of a project's events is asked for.
type FeedQuery struct {
	After uint64 // position of the last event that is known; 0: none
	Limit int    // events; 0: all

	named string // what named After: a parameter or a header
}

// ListEvents answers GET /v1/events. As JSON lines it ends with the newest event; as server-sent
// events it continues.
func (h Handlers) ListEvents(x *edge.Exchange) error {
	live := edge.Accepts(x.Request.Header["Accept"], edge.EventStream)
	values, err := x.Values()
	if err != nil {
		return err
	}
	seen := ""
	if live {
		seen = x.Request.Header.Get("Last-Event-ID")
	}
	q, err := ParseFeedQuery(values, seen)
	if err != nil {
		return err
	}
	feed, err := h.api.Feed(x.Context(), CallerOf(x), q)
	if err != nil {
		return err
	}
	defer feed.Close()
	x.Header().Add("Vary", "Accept")
	media := edge.JSONLines
	if live {
		media = edge.EventStream
	}
	out := x.Stream(media)
	if x.Request.Method == http.MethodHead {
		return nil
	}
	if live {
		return feed.Serve(x.Context(), out, func(e FeedEvent) (string, []byte, error) {
			if e.Position == 0 {
				return "", nil, nil
			}
			line, err := json.Marshal(e.EventLine, edge.AsWritten())
			return e.Type, line, err
		})
	}
	if err := feed.Each(x.Context(), func(e FeedEvent) error { return out.Line(e.EventLine) }); err != nil {
		return err
	}
	return out.Flush()
}

// ParseFeedQuery reads the parameters after and limit. seen is the header
// Last-Event-ID, "" for none: the event that a client saw last before it lost
// its connection, so it wins over the place where the client once began.
func ParseFeedQuery(values url.Values, seen string) (f FeedQuery, err error) {
	q, err := edge.ParseQuery(values, "after", "limit")
	if err != nil {
		return f, err
	}
	f.named = "after"
	if q.Has("after") {
		if f.After, err = afterPosition("after", q["after"]); err != nil {
			return f, err
		}
	}
	if q.Has("limit") {
		f.Limit, err = strconv.Atoi(q["limit"])
		if err != nil || f.Limit < 1 || f.Limit > maxFeedLimit || strconv.Itoa(f.Limit) != q["limit"] {
			return f, edge.BadParameter("limit", "Send a whole number from 1 to 1000000, or leave it out for all events.")
		}
	}
	if seen != "" {
		f.named = "Last-Event-ID"
		if f.After, err = afterPosition(f.named, seen); err != nil {
			return f, err
		}
	}
	return f, nil
}

func afterPosition(name, text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || strconv.FormatUint(n, 10) != text {
		return 0, edge.BadParameter(name, "Send the position of the last event you have, 0 for none.")
	}
	return n, nil
}

// Feed reads the events of a project's payments and refunds after a position,
// in the order of the log. Events of the project itself are left out: they
// hold hashes of API keys. It takes one of the project's places until Close.
type Feed struct {
	api   *API
	c     Caller
	query FeedQuery
	leave func()
}

// FeedEvent is one event of a feed.
type FeedEvent struct {
	wire.EventLine
	Type string // of the event, such as payment.paid
}

// Feed begins to read. Needs audit; the problem is 429 rate_limited when the
// project reads too many feeds already.
func (a *API) Feed(ctx context.Context, c Caller, q FeedQuery) (*Feed, error) {
	if err := a.Admit(&c, projects.Audit, nil); err != nil {
		return nil, err
	}
	last, err := a.cfg.Ledger.Store.Last(ctx)
	if err != nil {
		return nil, err
	}
	if q.After > uint64(last) {
		return nil, edge.BadParameter(q.named, "The log ends before this position. Send the position of an event that you have, or 0.")
	}
	leave, ok := a.feeds.enter(c.Project.ID)
	if !ok {
		return nil, wire.Problem{
			Code: domain.RateLimited, Detail: fmt.Sprintf("The project reads %d feeds of events already. End one of them, then begin another.", MaxFeeds),
		}.With("Retry-After", "15")
	}
	return &Feed{a, c, q, leave}, nil
}

// LastPosition is the end of the log. Needs audit.
func (a *API) LastPosition(ctx context.Context, c Caller) (uint64, error) {
	if err := a.Admit(&c, projects.Audit, nil); err != nil {
		return 0, err
	}
	last, err := a.cfg.Ledger.Store.Last(ctx)
	return uint64(last), err
}

// openFeeds counts the feeds that are being read by project.
type openFeeds struct {
	mu        sync.Mutex
	byProject map[string]int
}

// enter takes one of the project's places, of which there are MaxFeeds; leave
// gives it back.
func (o *openFeeds) enter(project string) (leave func(), ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byProject[project] >= MaxFeeds {
		return nil, false
	}
	o.byProject[project]++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.byProject[project]--; o.byProject[project] == 0 {
			delete(o.byProject, project)
		}
	}, true
}

// Close gives the feed's place back.
func (f *Feed) Close() { f.leave() }

// Each emits the events up to the newest there is, as long as the caller may
// read them.
func (f *Feed) Each(ctx context.Context, emit func(FeedEvent) error) error {
	ctx, cancel := edge.UntilStopping(ctx, f.api.cfg.Stopping)
	defer cancel()
	filter := eventstore.Filter{Project: f.c.Project.ID, Kind: eventstore.KindPayment}
	sent := 0
	for r, err := range f.api.cfg.Ledger.Store.Scan(ctx, eventstore.Position(f.query.After), filter) {
		if err == nil {
			err = f.api.recheck(ctx, f.c)
		}
		if err != nil {
			return err
		}
		e, err := feedEvent(r)
		if err != nil {
			return err
		}
		if err := emit(e); err != nil {
			return err
		}
		if sent++; sent == f.query.Limit {
			break
		}
	}
	return nil
}

// Follow emits events, those to come too, until ctx ends, the server stops or
// the key may no longer read. While there are none it emits the zero event now
// and then. It follows the events of the project itself too, so that a revoked
// key's feed ends with the revocation.
func (f *Feed) Follow(ctx context.Context, emit func(FeedEvent) error) error {
	ctx, cancel := edge.UntilStopping(ctx, f.api.cfg.Stopping)
	defer cancel()
	// The store waits until a record is taken, so nothing piles up.
	records := make(chan eventstore.Stored)
	var followed error
	go func() {
		defer close(records)
		filter := eventstore.Filter{Project: f.c.Project.ID}
		followed = f.api.cfg.Ledger.Store.Follow(ctx, eventstore.Position(f.query.After), filter, func(r eventstore.Stored) error {
			select {
			case records <- r:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	err := f.pump(ctx, records, emit)
	cancel()
	for range records { // until the follower has ended
	}
	if err == nil && !errors.Is(followed, eventstore.ErrClosed) && !errors.Is(followed, context.Canceled) {
		err = followed
	}
	return err
}

// pump emits records until they end or the feed has to.
func (f *Feed) pump(ctx context.Context, records <-chan eventstore.Stored, emit func(FeedEvent) error) error {
	heartbeat := time.NewTicker(f.api.cfg.Heartbeat)
	defer heartbeat.Stop()
	for sent := 0; ; {
		var r eventstore.Stored
		more := true
		select {
		case r, more = <-records:
		case <-heartbeat.C:
		}
		if !more {
			return nil
		}
		err := f.api.recheck(ctx, f.c)
		if _, over := errors.AsType[wire.Problem](err); over || ctx.Err() != nil {
			return nil // a client that comes back learns why
		}
		if err != nil {
			return err
		}
		var e FeedEvent
		switch {
		case r.Position == 0:
		case r.Stream.Kind != eventstore.KindPayment:
			continue
		default:
			if e, err = feedEvent(r); err != nil {
				return err
			}
		}
		if err := emit(e); err != nil {
			return err
		}
		if e.Position != 0 {
			if sent++; sent == f.query.Limit {
				return nil
			}
		}
	}
}

func feedEvent(r eventstore.Stored) (e FeedEvent, err error) {
	e.EventLine = LineOf(r)
	if e.Type, err = eventstore.TypeOf(r.Body); err != nil {
		err = &eventstore.CorruptError{Position: r.Position, Reason: err.Error()}
	}
	return e, err
}

// LineOf is a record as it is listed, with its details.
func LineOf(r eventstore.Stored) wire.EventLine {
	l := wire.EventLine{Position: uint64(r.Position), Event: r.Body}
	if len(r.Details) > eventstore.SaltSize {
		l.Details, l.Salt = jsontext.Value(r.Details[eventstore.SaltSize:]), hex.EncodeToString(r.Details[:eventstore.SaltSize])
	}
	return l
}

// reconnectAfter is how soon a client whose connection broke should come back,
// in milliseconds.
const reconnectAfter = 2000

// Serve writes what Follow emits as server-sent events. render answers an
// event's name and its data, which may have several lines; of the zero event,
// which is a sign of life, the name may be "": then it is a comment.
func (f *Feed) Serve(ctx context.Context, out *edge.Exchange, render func(FeedEvent) (name string, data []byte, err error)) error {
	if _, err := fmt.Fprintf(out, "retry: %d\n\n", reconnectAfter); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	err := f.Follow(ctx, func(e FeedEvent) error {
		name, data, err := render(e)
		if err != nil {
			return err
		}
		text := []byte(": \n\n")
		if name != "" {
			text = nil
			if e.Position != 0 {
				text = fmt.Appendf(nil, "id: %d\n", e.Position)
			}
			text = fmt.Appendf(text, "event: %s\n", name)
			for line := range bytes.Lines(data) {
				text = fmt.Appendf(text, "data: %s\n", bytes.TrimRight(line, "\r\n"))
			}
			text = append(text, '\n')
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
		return out.Flush()
	})
	return errors.Join(err, out.Flush())
}
