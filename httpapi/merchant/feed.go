package merchant

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
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
	live := edge.Prefers(x.Request.Header["Accept"], edge.EventStream, edge.JSONLines)
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
// hold hashes of API keys. Details are there only if the key has read, too. It takes one of the project's places until Close.
type Feed struct {
	api   *API
	c     Caller
	query FeedQuery
	leave func()
	sent  int // events
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
	places := a.feeds.of(c.Project.ID)
	select {
	case places <- struct{}{}:
	default:
		return nil, wire.Problem{
			Code: domain.RateLimited, Detail: fmt.Sprintf("The project reads %d feeds of events already. End one of them, then begin another.", MaxFeeds),
		}.With("Retry-After", "15")
	}
	return &Feed{api: a, c: c, query: q, leave: func() { <-places }}, nil
}

// The log can be read forward only, and the events of one project lie apart in it: so EventsBefore
// reads windows of growing size, from the end towards the start, until it has enough.
const (
	smallWindow = 256
	largeWindow = 4096
	maxWindows  = 12
)

// EventsBefore lists up to n of the events that a Feed has, the newest first: those before a
// position, which is 0 or beyond last for the newest of all. last is the end of the log. There may
// be more before older, unless that is 0, even when there are fewer than n. Needs audit.
func (a *API) EventsBefore(ctx context.Context, c Caller, before uint64, n int) (lines []wire.EventLine, last, older uint64, err error) {
	if err := a.Admit(&c, projects.Audit, nil); err != nil {
		return nil, 0, 0, err
	}
	newest, err := a.cfg.Ledger.Store.Last(ctx)
	if err != nil {
		return nil, 0, 0, err
	}
	last = uint64(newest)
	end, size := last, uint64(smallWindow) // end is the last one a window may show
	if before > 0 && before <= last {
		end = before - 1
	}
	for range maxWindows {
		if end == 0 || len(lines) >= n {
			break
		}
		after := end - min(end, size)
		var window []wire.EventLine
		for r, err := range a.cfg.Ledger.Store.Scan(ctx, eventstore.Position(after), eventstore.Filter{Project: c.Project.ID, Kind: eventstore.KindPayment}) {
			if err != nil {
				return nil, last, 0, err
			}
			if uint64(r.Position) > end {
				break
			}
			window = append(window, c.lineOf(r))
		}
		slices.Reverse(window)
		lines = append(lines, window...)
		end, size = after, min(size*4, largeWindow)
	}
	if len(lines) > n {
		lines = lines[:n]
		end = lines[n-1].Position - 1
	}
	if end > 0 {
		older = end + 1
	}
	return lines, last, older, nil
}

// Close gives the feed's place back.
func (f *Feed) Close() { f.leave() }

// errFeedOver: all events were emitted that were asked for.
var errFeedOver = errors.New("the feed is over")

// emit emits a record, or the zero event for none, as long as the caller may read.
func (f *Feed) emit(ctx context.Context, r eventstore.Stored, to func(FeedEvent) error) error {
	err := f.api.recheck(ctx, f.c)
	if err != nil || r.Position != 0 && r.Stream.Kind != eventstore.KindPayment {
		return err
	}
	var e FeedEvent
	if r.Position != 0 {
		f.sent++
		if e, err = f.c.feedEvent(r); err != nil {
			return err
		}
	}
	if err = to(e); err == nil && f.sent > 0 && f.sent == f.query.Limit {
		err = errFeedOver
	}
	return err
}

// Each emits the events up to the newest there is.
func (f *Feed) Each(ctx context.Context, to func(FeedEvent) error) error {
	ctx, cancel := edge.UntilStopping(ctx, f.api.cfg.Stopping)
	defer cancel()
	filter := eventstore.Filter{Project: f.c.Project.ID, Kind: eventstore.KindPayment}
	for r, err := range f.api.cfg.Ledger.Store.Scan(ctx, eventstore.Position(f.query.After), filter) {
		if err == nil {
			err = f.emit(ctx, r, to)
		}
		if errors.Is(err, errFeedOver) {
			break
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Follow emits events, those to come too, until ctx ends, the server stops or
// the key may no longer read. Now and then it emits the zero event. It follows the events of the
// project itself too, so that a revoked key's feed ends with the revocation.
func (f *Feed) Follow(ctx context.Context, to func(FeedEvent) error) error {
	ctx, cancel := edge.UntilStopping(ctx, f.api.cfg.Stopping)
	defer cancel()
	var turn sync.Mutex // for one event after the other
	var over error      // why the feed has ended
	one := func(r eventstore.Stored) error {
		turn.Lock()
		defer turn.Unlock()
		if over == nil && ctx.Err() == nil {
			over = f.emit(ctx, r, to)
		}
		if over != nil {
			cancel()
		}
		return cmp.Or(over, ctx.Err())
	}
	var alive sync.WaitGroup
	alive.Go(func() {
		heartbeat := time.NewTicker(f.api.cfg.Heartbeat)
		defer heartbeat.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-heartbeat.C:
				_ = one(eventstore.Stored{})
			}
		}
	})
	// The store waits until a record is taken, so nothing piles up.
	err := f.api.cfg.Ledger.Store.Follow(ctx, eventstore.Position(f.query.After), eventstore.Filter{Project: f.c.Project.ID}, one)
	cancel()
	alive.Wait()
	if over != nil {
		err = over
	}
	if _, refused := errors.AsType[wire.Problem](err); refused || errors.Is(err, errFeedOver) || errors.Is(err, eventstore.ErrClosed) || errors.Is(err, context.Canceled) {
		return nil // a client that comes back learns why
	}
	return err
}

func (c Caller) feedEvent(r eventstore.Stored) (e FeedEvent, err error) {
	e.EventLine = c.lineOf(r)
	if e.Type, err = eventstore.TypeOf(r.Body); err != nil {
		err = &eventstore.CorruptError{Position: r.Position, Reason: err.Error()}
	}
	return e, err
}

// lineOf is LineOf for the caller: without read the details are left out, as of an erased payment.
func (c Caller) lineOf(r eventstore.Stored) wire.EventLine {
	if !c.operator && !c.Key.Has(projects.Read) {
		r.Details = nil
	}
	return LineOf(r)
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
