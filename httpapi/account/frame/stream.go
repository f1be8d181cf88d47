package frame

import (
	"context"
	"strconv"
	"sync"

	"payledger/httpapi/account/store"
)

// streams are the answers that go on: each ends with its session.
type streams struct {
	mu  sync.Mutex
	all map[*stream]struct{}
}

type stream struct {
	session store.Session
	token   string // of the session
	end     context.CancelFunc
}

// Streaming is the context of an answer that may go on until the session ends,
// by its limit or by signing out.
func (v *Visit) Streaming() (context.Context, context.CancelFunc) {
	ctx, end := context.WithTimeout(v.Request.Context(), v.until.Sub(v.Now()))
	s := &stream{session: v.session, token: v.sessions.Token(v.Request.Context()), end: end}
	v.streams.mu.Lock()
	if v.streams.all == nil {
		v.streams.all = make(map[*stream]struct{})
	}
	v.streams.all[s] = struct{}{}
	v.streams.mu.Unlock()
	return ctx, func() {
		v.streams.mu.Lock()
		delete(v.streams.all, s)
		v.streams.mu.Unlock()
		end()
	}
}

// Live reports whether the session of an answer that goes on has not been ended
// meanwhile: another server may have done so.
func (v *Visit) Live() bool {
	ctx, err := v.sessions.Load(v.X.Request.Context(), v.sessions.Token(v.Request.Context()))
	if err != nil {
		return true // it is not known
	}
	generation, err := v.Kept.Generation(v.session)
	return err != nil || v.sessions.GetString(ctx, projectValue) != "" &&
		v.sessions.GetString(ctx, generationValue) == strconv.FormatUint(generation, 10)
}

// end ends the streams that are over.
func (all *streams) end(over func(*stream) bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for s := range all.all {
		if over(s) {
			s.end()
		}
	}
}
