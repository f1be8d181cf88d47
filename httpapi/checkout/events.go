package checkout

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	heartbeat         = 15 * time.Second // between looks at a payment that does not change
	reconnect         = 2 * time.Second  // when a customer whose connection broke should come back
	maxStreams        = 2000             // of one process, unless the Config says less
	addressShare      = 10               // one address has at most this part of them, but no less than one payment
	maxPerPayment     = 20               // of one payment
	streamsRetryAfter = 30               // seconds until a place may be free
)

// events sends the payment's state to the page's script as server-sent events:
// at once, after each change, and at every heartbeat.
// It ends with the payment's final state, the server or the customer.
func (h *handler) events(w http.ResponseWriter, v *visit) error {
	if _, err := h.paymentToRead(v); err != nil {
		return err
	}
	// From here on no change is missed: the payment is read again below.
	changed, leave, err := h.changes.join(v.request.Context(), v.id, h.Visitor(v.request))
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancel(v.request.Context())
	defer cancel()
	if h.Stopping != nil {
		defer context.AfterFunc(h.Stopping, cancel)()
	}
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	if v.request.Method == http.MethodHead {
		return nil
	}
	h.pump(ctx, w, control, v, changed)
	return nil
}

// pump writes events until there is a reason to end. Failures end the stream
// too: the customer's browser connects again, and gets the state then.
func (h *handler) pump(ctx context.Context, w http.ResponseWriter, control *http.ResponseController, v *visit, changed <-chan struct{}) {
	opening := fmt.Sprintf("retry: %d\n\n", reconnect.Milliseconds())
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-timer.C:
		}
		p, err := h.paymentBehind(ctx, v)
		if err != nil {
			if ctx.Err() == nil {
				h.log(v.request).Error().Err(err).Msg("a stream of the payment page ended")
			}
			return
		}
		now := h.statusOf(v, p)
		body, err := json.Marshal(now)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "%sevent: state\ndata: %s\n\n", opening, body); err != nil || control.Flush() != nil || now.Final {
			return
		}
		opening = ""
		next := h.heartbeat
		if left := time.Duration(p.ExpiresAt-h.now()) * time.Millisecond; left > 0 {
			next = min(next, left)
		}
		timer.Reset(next)
	}
}
