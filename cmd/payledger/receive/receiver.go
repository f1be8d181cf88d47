// Package receive is a receiver of webhooks on this machine. It is written from
// their documentation and imports nothing of the sender's code.
package receive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// maxNotification is the longest body a receiver reads. Notifications are a
// tenth of it at most.
const maxNotification = 64 << 10

// forwardTime bounds the answer of the application that a receiver forwards to: a little less than
// the 15 s that a sender waits.
const forwardTime = 14 * time.Second

// Receiver verifies, prints and forwards notifications as a merchant's receiver
// would. It handles one notification of a payment at a time, and those of
// different payments concurrently.
type Receiver struct {
	o         Options
	verifiers []*standardwebhooks.Webhook
	forward   *url.URL // nil: no forwarding
	client    http.RoundTripper
	seen      *lastSeen
	printing  sync.Mutex
	failed    chan error // stdout cannot be written to
}

// Options are the settings of a receiver.
type Options struct {
	Secrets   []string // of the endpoint; a notification is signed with one of them
	ForwardTo string   // URL that verified requests are forwarded to; "": none
	FailFirst int      // how many attempts of each notification get a 500
	JSON      bool     // print JSON, not lines for people

	Stdout, Stderr io.Writer // of notifications, and of what was refused
}

// New makes a receiver, or says which option is wrong: without a secret it could verify nothing.
func New(o Options) (*Receiver, error) {
	if o.FailFirst < 0 {
		return nil, fmt.Errorf("--fail-first %d: want 0 or more", o.FailFirst)
	}
	forward, err := forwardTarget(o.ForwardTo)
	if err != nil {
		return nil, err
	}
	all, err := verifiers(o.Secrets)
	if err != nil {
		return nil, err
	}
	return &Receiver{
		o: o, verifiers: all, forward: forward,
		client: &http.Transport{DisableCompression: true, ResponseHeaderTimeout: forwardTime, IdleConnTimeout: 4 * time.Second},
		seen:   newLastSeen(), failed: make(chan error, 1),
	}, nil
}

// Broken receives an error when a notification could not be printed.
func (r *Receiver) Broken() <-chan error { return r.failed }

// notification is a notification as it is printed.
type notification struct {
	ReceivedAt time.Time `json:"received_at"`
	EventID    string    `json:"event_id"`
	Type       string    `json:"type"`
	Timestamp  string    `json:"timestamp"`
	PaymentID  string    `json:"payment_id,omitzero"`
	RefundID   string    `json:"refund_id,omitzero"`
	EndpointID string    `json:"endpoint_id,omitzero"` // of endpoint.test
	Status     string    `json:"status,omitzero"`
	Amount     string    `json:"amount,omitzero"`
	Currency   string    `json:"currency,omitzero"`
	Sequence   uint64    `json:"sequence,omitzero"`
	Position   uint64    `json:"position,omitzero"`
	Attempt    int       `json:"attempt,omitzero"`
	Answered   int       `json:"answered"`
	Note       string    `json:"note,omitzero"`
}

// ServeHTTP answers one request of a sender, on any path.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "payledger listen takes notifications, which are POSTed", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxNotification))
	if err != nil {
		status := http.StatusBadRequest
		if _, long := errors.AsType[*http.MaxBytesError](err); long {
			status = http.StatusRequestEntityTooLarge
		}
		r.refuse(w, req, status, "the body cannot be read: "+err.Error())
		return
	}
	for _, v := range r.verifiers { // one of the secrets fits
		if err = v.Verify(body, req.Header); err == nil {
			break
		}
	}
	if err != nil {
		r.refuse(w, req, http.StatusUnauthorized, whyRefused(err))
		return
	}
	n, err := readNotification(body)
	if err != nil {
		r.refuse(w, req, http.StatusBadRequest, "the signature is right, but this is no notification of payledger: "+err.Error())
		return
	}
	n.ReceivedAt = time.Now().UTC()
	n.Attempt, _ = strconv.Atoi(req.Header.Get("Webhook-Attempt")) // not signed: it is printed, and counts for FailFirst
	r.take(w, req, body, n)
}

// take answers a notification that was verified.
func (r *Receiver) take(w http.ResponseWriter, req *http.Request, body []byte, n notification) {
	last, leave, err := r.seen.enter(req.Context(), n.PaymentID)
	if err != nil {
		return // the sender has gone
	}
	defer func() {
		good := n.Answered/100 == 2
		if good {
			last = max(last, n.Sequence)
		}
		leave(last)
		r.print(n)
	}()
	switch {
	case n.PaymentID != "" && n.Sequence <= last:
		n.Answered, n.Note = http.StatusOK, fmt.Sprintf("ignored: sequence %d of this payment was seen before", last)
		reply(w, n)
	case r.o.FailFirst > 0 && n.Attempt <= r.o.FailFirst:
		n.Answered, n.Note = http.StatusInternalServerError, "refused on purpose: --fail-first"
		reply(w, n)
	case r.forward != nil:
		r.pass(w, req, body, &n)
	default:
		n.Answered = http.StatusOK
		reply(w, n)
	}
}

func reply(w http.ResponseWriter, n notification) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(n.Answered)
	_, _ = io.WriteString(w, cmp.Or(n.Note, "accepted")+"\n") // a sender that has gone tries again
}

// pass forwards a request and answers with the response.
func (r *Receiver) pass(w http.ResponseWriter, req *http.Request, body []byte, n *notification) {
	ctx, cancel := context.WithTimeout(req.Context(), forwardTime)
	defer cancel()
	proxy := &httputil.ReverseProxy{
		Transport: r.client,
		ErrorLog:  log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			to := *r.forward
			p.Out.URL, p.Out.Host = &to, to.Host
		},
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode < http.StatusOK {
				return fmt.Errorf("it answers %d, which ends no request", resp.StatusCode)
			}
			n.Answered, n.Note = resp.StatusCode, "as "+r.forward.Redacted()+" answered"
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			n.Answered, n.Note = http.StatusBadGateway, fmt.Sprintf("%s does not answer: %v", r.forward.Redacted(), err)
			reply(w, *n)
		},
	}
	again := req.WithContext(ctx)
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	proxy.ServeHTTP(w, again)
}

func whyRefused(err error) string {
	switch {
	case errors.Is(err, standardwebhooks.ErrRequiredHeaders):
		return "not signed: Webhook-Id, Webhook-Timestamp or Webhook-Signature is missing"
	case errors.Is(err, standardwebhooks.ErrMessageTooOld):
		return "its timestamp is more than five minutes old: an old request sent again, or one of the two clocks is wrong"
	case errors.Is(err, standardwebhooks.ErrMessageTooNew):
		return "its timestamp is more than five minutes ahead: one of the two clocks is wrong"
	case errors.Is(err, standardwebhooks.ErrNoMatchingSignature):
		return "no signature fits: it was altered, it is for another endpoint, or the secret was rotated since; compare --secret with the endpoint's"
	}
	return "its signature headers cannot be read"
}

// refuse answers a request that could not be verified. Nothing from the request is printed, because
// anyone may have sent it.
func (r *Receiver) refuse(w http.ResponseWriter, req *http.Request, status int, why string) {
	http.Error(w, why, status)
	from, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		from = req.RemoteAddr
	}
	fmt.Fprintf(r.o.Stderr, "payledger: refused with %d what came from %s: %s\n", status, from, why)
}

// readNotification reads what the body of a notification says.
func readNotification(body []byte) (notification, error) {
	var n struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Timestamp string `json:"timestamp"`
		Sequence  uint64 `json:"sequence"`
		Position  uint64 `json:"position"`
		Data      struct {
			ID         string `json:"id"`
			PaymentID  string `json:"payment_id"`
			EndpointID string `json:"endpoint_id"`
			Status     string `json:"status"`
			Amount     string `json:"amount"`
			Currency   string `json:"currency"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &n); err != nil {
		return notification{}, err
	}
	got := notification{
		EventID: n.ID, Type: n.Type, Timestamp: n.Timestamp, Sequence: n.Sequence, Position: n.Position,
		Status: n.Data.Status, Amount: n.Data.Amount, Currency: n.Data.Currency,
	}
	switch {
	case n.ID == "" || n.Type == "":
		return got, errors.New("it has no id or no type")
	case n.Data.PaymentID != "":
		got.PaymentID, got.RefundID = n.Data.PaymentID, n.Data.ID
	case n.Data.ID != "":
		got.PaymentID = n.Data.ID
	default:
		got.EndpointID = n.Data.EndpointID
	}
	if got.PaymentID != "" && n.Sequence == 0 {
		return got, errors.New("it has no sequence")
	}
	return got, nil
}
