package checkout

import (
	"net/http"
	"time"
)

// liveStatus is the payment's state, for the page's script.
type liveStatus struct {
	State    state `json:"state"`     // what the page would show
	ClosesIn int   `json:"closes_in"` // seconds to the deadline, 0 after it

	// Left is the same in words of the page's language.
	Left string `json:"left"`
}

// statusSuffix ends the path of a page's status.
const statusSuffix = "/status"

// status answers with the payment's present state.
func (h *handler) status(v *visit) error {
	if !readOnly(v.request) {
		return &failure{status: http.StatusMethodNotAllowed, why: badMethod, allow: readMethods}
	}
	p, err := h.paymentBehind(v.x.Context(), v)
	if err != nil {
		return err
	}
	left := max(0, time.Duration(p.ExpiresAt-h.now())*time.Millisecond)
	return v.x.Reply(http.StatusOK, liveStatus{State: h.stateOf(p), ClosesIn: seconds(left), Left: v.locale.Left(left)})
}

type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
}

// failStatus answers the script.
func (h *handler) failStatus(v *visit, err error) error {
	f := v.announce(err)
	return v.x.ReplyJSON(f.status, "application/problem+json", problem{Type: "about:blank", Title: http.StatusText(f.status), Status: f.status})
}
