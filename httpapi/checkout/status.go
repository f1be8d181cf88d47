package checkout

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
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

// AsksStatus reports whether a request below /p/ is an open page's question for its
// payment's status.
func AsksStatus(r *http.Request) bool { return strings.HasSuffix(r.URL.EscapedPath(), statusSuffix) }

// status answers with the payment's present state.
func (h *handler) status(w http.ResponseWriter, v *visit) error {
	if !readOnly(v.request) {
		return &failure{status: http.StatusMethodNotAllowed, why: badMethod, allow: readMethods}
	}
	p, err := h.paymentBehind(v.request.Context(), v)
	if err != nil {
		return err
	}
	left := max(0, time.Duration(p.ExpiresAt-h.now())*time.Millisecond)
	body, err := json.Marshal(liveStatus{State: h.stateOf(p), ClosesIn: seconds(left), Left: v.locale.Left(left)})
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, "application/json", body)
	return nil
}

type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
}

// failStatus answers the script.
func (h *handler) failStatus(w http.ResponseWriter, v *visit, err error) {
	f := h.announce(w, v.request, err)
	body, err := json.Marshal(problem{Type: "about:blank", Title: http.StatusText(f.status), Status: f.status})
	if err != nil {
		h.log(v.request).Error().Err(err).Msg("the payment page's status failed")
	}
	reply(w, f.status, "application/problem+json", body)
}

func reply(w http.ResponseWriter, status int, contentType string, body []byte) {
	body = append(body, '\n')
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the customer may have left
}
