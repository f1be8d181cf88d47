package merchant

import (
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

// feedQuery is what of a project's events is asked for.
type feedQuery struct {
	after uint64 // position of the last event that is known; 0: none
	limit int    // events; 0: all
	named string // what named after: a parameter or a header
}

// ListEvents answers GET /v1/events. As JSON lines it ends with the newest event; as server-sent
// events it continues.
func (h Handlers) ListEvents(x *edge.Exchange) error {
	media, seen := edge.JSONLines, ""
	if edge.Prefers(x.Request.Header["Accept"], edge.EventStream, edge.JSONLines) {
		media, seen = edge.EventStream, x.Request.Header.Get("Last-Event-ID")
	}
	values, err := x.Values()
	if err != nil {
		return err
	}
	q, err := parseFeedQuery(values, seen)
	if err != nil {
		return err
	}
	f, err := h.api.feed(x.Context(), CallerOf(x), q)
	if err != nil {
		return err
	}
	defer f.leave()
	x.Header().Add("Vary", "Accept")
	out := x.Stream(media)
	switch {
	case x.Request.Method == http.MethodHead:
		return nil
	case media == edge.EventStream:
		return f.serve(x.Context(), out)
	}
	if err := f.each(x.Context(), func(r eventstore.Stored) error { return out.Line(f.c.lineOf(r)) }); err != nil {
		return err
	}
	return out.Flush()
}

// parseFeedQuery reads the parameters after and limit. seen is the header
// Last-Event-ID, "" for none: the event that a client saw last before it lost
// its connection, so it wins over the place where the client once began.
func parseFeedQuery(values url.Values, seen string) (f feedQuery, err error) {
	q, err := edge.ParseQuery(values, "after", "limit")
	if err != nil {
		return f, err
	}
	f.named = "after"
	if q.Has("after") {
		if f.after, err = afterPosition("after", q["after"]); err != nil {
			return f, err
		}
	}
	if q.Has("limit") {
		f.limit, err = strconv.Atoi(q["limit"])
		if err != nil || f.limit < 1 || f.limit > maxFeedLimit || strconv.Itoa(f.limit) != q["limit"] {
			return f, edge.BadParameter("limit", "Send a whole number from 1 to 1000000, or leave it out for all events.")
		}
	}
	if seen != "" {
		f.named = "Last-Event-ID"
		if f.after, err = afterPosition(f.named, seen); err != nil {
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

// feed reads the events of a project's payments and refunds after a position,
// in the order of the log. Events of the project itself are left out: they
// hold hashes of API keys. Details are there only if the key has read, too. It takes one of the
// project's places until leave.
type feed struct {
	api   *API
	c     Caller
	query feedQuery
	leave func()
	sent  int // events
}

// feed begins to read. Needs audit; the problem is 429 rate_limited when the
// project reads too many feeds already.
func (a *API) feed(ctx context.Context, c Caller, q feedQuery) (*feed, error) {
	if err := a.Admit(&c, projects.Audit, nil); err != nil {
		return nil, err
	}
	last, err := a.cfg.Ledger.Store.Last(ctx)
	if err != nil {
		return nil, err
	}
	if q.after > uint64(last) {
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
	return &feed{api: a, c: c, query: q, leave: func() { <-places }}, nil
}

// The log can be read forward only, and the events of one project lie apart in it: so EventsBetween
// reads windows of growing size, from the end towards the start, until it has enough.
const (
	smallWindow = 256
	largeWindow = 4096
	maxWindows  = 12
)

// EventsBetween lists up to n of the events that a feed has, the newest first: those after a position
// and before one, which is 0 or beyond last for the newest of all. last is the end of the log. There
// may be more before older, unless that is 0, even when there are fewer than n. Needs audit.
func (a *API) EventsBetween(ctx context.Context, c Caller, after, before uint64, n int) (lines []wire.EventLine, last, older uint64, err error) {
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
		if end <= after || len(lines) >= n {
			break
		}
		begin := end - min(end-after, size)
		var window []wire.EventLine
		for r, err := range a.cfg.Ledger.Store.Scan(ctx, eventstore.Position(begin), eventstore.Filter{Project: c.Project.ID, Kind: eventstore.KindPayment}) {
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
		end, size = begin, min(size*4, largeWindow)
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

// errFeedOver: all events were emitted that were asked for.
var errFeedOver = errors.New("the feed is over")

// emit emits a record, or the zero record for none, as long as the caller may read.
func (f *feed) emit(ctx context.Context, r eventstore.Stored, to func(eventstore.Stored) error) error {
	err := f.api.recheck(ctx, f.c)
	if err != nil || r.Position != 0 && r.Stream.Kind != eventstore.KindPayment {
		return err
	}
	if r.Position != 0 {
		f.sent++
	}
	if err = to(r); err == nil && f.sent > 0 && f.sent == f.query.limit {
		err = errFeedOver
	}
	return err
}

// each emits the events up to the newest there is.
func (f *feed) each(ctx context.Context, to func(eventstore.Stored) error) error {
	ctx, cancel := edge.UntilStopping(ctx, f.api.cfg.Stopping)
	defer cancel()
	filter := eventstore.Filter{Project: f.c.Project.ID, Kind: eventstore.KindPayment}
	for r, err := range f.api.cfg.Ledger.Store.Scan(ctx, eventstore.Position(f.query.after), filter) {
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

// follow emits events, those to come too, until ctx ends, the server stops or
// the key may no longer read. Now and then it emits the zero record. It follows the events of the
// project itself too, so that a revoked key's feed ends with the revocation.
func (f *feed) follow(ctx context.Context, to func(eventstore.Stored) error) error {
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
	err := f.api.cfg.Ledger.Store.Follow(ctx, eventstore.Position(f.query.after), eventstore.Filter{Project: f.c.Project.ID}, one)
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

// serve writes what follow emits as server-sent events, and a comment as a sign of life.
func (f *feed) serve(ctx context.Context, out *edge.Exchange) error {
	if _, err := fmt.Fprintf(out, "retry: %d\n\n", reconnectAfter); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	err := f.follow(ctx, func(r eventstore.Stored) error {
		text := []byte(": \n\n")
		if r.Position != 0 {
			kind, err := eventstore.TypeOf(r.Body)
			if err != nil {
				return &eventstore.CorruptError{Position: r.Position, Reason: err.Error()}
			}
			line, err := json.Marshal(f.c.lineOf(r), edge.AsWritten())
			if err != nil {
				return err
			}
			text = fmt.Appendf(nil, "id: %d\nevent: %s\ndata: %s\n\n", r.Position, kind, line)
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
		return out.Flush()
	})
	return errors.Join(err, out.Flush())
}
