package delivery

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// mode is how a receiver answers.
type mode string

const (
	fine     mode = "fine"
	late     mode = "late" // 200 after 14 s
	broken   mode = "500"
	gone     mode = "410"
	busy     mode = "429 with Retry-After"
	redirect mode = "redirect"
	reset    mode = "reset"
	silent   mode = "no answer"
	drip     mode = "slow drip"
	leaving  mode = "410 after 14 s"
	huge     mode = "huge body"
)

func modes() []mode {
	return []mode{fine, fine, fine, late, broken, broken, gone, busy, redirect, reset, silent, drip, huge}
}

// request is what a receiver saw.
type request struct {
	at       time.Time
	endpoint string
	event    domain.ID
	kind     domain.Kind
	payment  domain.ID
	sequence uint64
	mode     mode
	body     string
	header   http.Header
}

// network carries requests to receivers in memory and watches the order of
// each lane.
type network struct {
	mu        sync.Mutex
	modes     map[string]mode // by host
	underWay  map[string]int  // by lane
	highest   map[string]uint64
	enqueued  map[string][]request // by lane: what was handed over, or asked for again
	requests  []request
	delivered map[string]bool // endpoint and event that were answered with 2xx
	faults    []string
	era       int
	down      bool // no request gets through
	keep      bool // requests, with bodies

	// The high-water mark of a lane in the log.
	mark func(endpoint string, payment domain.ID) uint64
}

func newNetwork() *network {
	return &network{
		modes: make(map[string]mode), underWay: make(map[string]int), highest: make(map[string]uint64),
		enqueued: make(map[string][]request), delivered: make(map[string]bool),
	}
}

func (n *network) set(endpoint string, m mode) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.modes[endpoint] = m
}

// cut is what the network sees of a crash.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.era++
	clear(n.underWay)
}

// setDown lets no request through from now on, or again.
func (n *network) setDown(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
}

// noteEnqueued notes that an event is queued.
func (n *network) noteEnqueued(endpoint string, payment domain.ID, r eventstore.Stored, kind domain.Kind) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lane := endpoint + payment.String()
	n.enqueued[lane] = append(n.enqueued[lane], request{at: time.Now(), event: r.Commit, kind: kind, sequence: r.Sequence})
}

// fault notes that something is wrong. n.mu is held; note is for others.
func (n *network) fault(format string, args ...any) {
	n.faults = append(n.faults, fmt.Sprintf(format, args...))
}

func (n *network) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault(format, args...)
}

func (n *network) found() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.faults)
}

func (n *network) seen() []request {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]request(nil), n.requests...)
}

func (n *network) answered(endpoint string, event domain.ID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.delivered[endpoint+event.String()]
}

// RoundTrip implements http.RoundTripper.
func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	host, _, _ := strings.Cut(req.URL.Hostname(), ".")
	r, err := read(req, "we_"+host)
	if err != nil {
		n.note("%v", err)
		return nil, err
	}
	lane := r.endpoint + r.payment.String()
	n.mu.Lock()
	if n.down {
		n.mu.Unlock()
		return nil, syscall.ECONNRESET
	}
	era := n.era
	if r.mode = n.modes[r.endpoint]; r.mode == "" {
		r.mode = fine
	}
	n.begin(lane, r)
	n.mu.Unlock()
	if at := n.mark(r.endpoint, r.payment); at < r.sequence {
		n.note("%s: sequence %d was begun while the mark in the file was %d", lane, r.sequence, at)
	}
	resp, err := answer(req.Context(), r.mode)
	n.mu.Lock()
	defer n.mu.Unlock()
	if era == n.era {
		n.underWay[lane]--
		if err == nil && resp.StatusCode/100 == 2 {
			n.delivered[r.endpoint+r.event.String()] = true
		}
	} else if err == nil {
		resp.Body.Close()
		return nil, syscall.ECONNRESET
	}
	return resp, err
}

func read(req *http.Request, endpoint string) (request, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return request{}, err
	}
	var v struct {
		ID       domain.ID   `json:"id"`
		Type     domain.Kind `json:"type"`
		Sequence uint64      `json:"sequence"`
		Data     struct {
			ID      domain.ID `json:"id"`
			Payment domain.ID `json:"payment_id"`
			Status  string    `json:"status"`

			Instructions jsontext.Value `json:"instructions"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return request{}, err
	}
	switch _, named, _ := strings.Cut(string(v.Type), "."); named { // a kind that names a status
	case "awaiting_payment", "paid", "expired", "pending", "succeeded", "failed":
		if v.Data.Status != named {
			return request{}, fmt.Errorf("%s is told with the status %q", v.Type, v.Data.Status)
		}
	}
	if v.Data.Instructions != nil {
		return request{}, fmt.Errorf("%s tells how to pay", v.Type)
	}
	payment := v.Data.ID
	switch {
	case v.Type == domain.KindEndpointTest:
		payment = v.ID
	case strings.HasPrefix(string(v.Type), "refund."):
		payment = v.Data.Payment
	}
	return request{
		at: time.Now(), endpoint: endpoint, event: v.ID, kind: v.Type, payment: payment, sequence: v.Sequence, body: string(body),
		header: maps.Clone(req.Header),
	}, nil
}

// begin checks the rules as a receiver can see them. n.mu is held.
func (n *network) begin(lane string, r request) {
	if n.underWay[lane]++; n.underWay[lane] > 1 {
		n.fault("%s: a request for sequence %d began while another one was under way", lane, r.sequence)
	}
	if r.sequence < n.highest[lane] {
		n.fault("%s: sequence %d was begun after %d", lane, r.sequence, n.highest[lane])
	}
	n.highest[lane] = max(n.highest[lane], r.sequence)
	for _, later := range n.enqueued[lane] {
		if !r.kind.Final() && later.sequence > r.sequence && later.at.Before(r.at) {
			n.fault("%s: intermediate sequence %d was begun though %d was known for %s", lane, r.sequence, later.sequence, r.at.Sub(later.at))
		}
	}
	if n.keep {
		n.requests = append(n.requests, r)
	}
}

func answer(ctx context.Context, m mode) (*http.Response, error) {
	respond := func(status int, body io.Reader) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(body)}, nil
	}
	switch m {
	case late, leaving:
		if !health.Pause(ctx, 14*time.Second) {
			return nil, ctx.Err()
		}
		if m == leaving {
			return answer(ctx, gone)
		}
	case broken:
		return respond(http.StatusInternalServerError, strings.NewReader("sorry"))
	case gone:
		return respond(http.StatusGone, strings.NewReader(""))
	case busy:
		resp, err := respond(http.StatusTooManyRequests, strings.NewReader(""))
		resp.Header.Set("Retry-After", "7200")
		return resp, err
	case redirect:
		resp, err := respond(http.StatusFound, strings.NewReader(""))
		resp.Header.Set("Location", "https://elsewhere.example/")
		return resp, err
	case reset:
		return nil, syscall.ECONNRESET
	case silent:
		<-ctx.Done()
		return nil, ctx.Err()
	case drip:
		return respond(http.StatusOK, dripping{ctx})
	case huge:
		return respond(http.StatusOK, zeros{})
	}
	return respond(http.StatusOK, strings.NewReader("ok"))
}

type dripping struct{ ctx context.Context }

func (d dripping) Read(b []byte) (int, error) {
	if !health.Pause(d.ctx, time.Second) {
		return 0, d.ctx.Err()
	}
	b[0] = '.'
	return 1, nil
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
