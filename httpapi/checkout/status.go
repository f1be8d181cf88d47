package checkout

import (
	"net/http"
	"time"

	"payledger/domain"
	"payledger/httpapi/wire"
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

// status answers with the payment's present state. Its errors become problem documents.
func (h *handler) status(v *visit) error {
	if !readOnly(v.request) {
		return wire.Problem{Code: domain.MethodNotAllowed, Detail: "This path takes " + readMethods + "."}.With("Allow", readMethods)
	}
	p, err := h.paymentBehind(v.x.Context(), v)
	if err != nil {
		return err
	}
	left := max(0, time.Duration(p.ExpiresAt-h.now())*time.Millisecond)
	return v.x.Reply(http.StatusOK, liveStatus{State: h.stateOf(p), ClosesIn: seconds(left), Left: v.locale.Left(left)})
}
