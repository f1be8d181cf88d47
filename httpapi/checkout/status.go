package checkout

import (
	"encoding/json"
	"net/http"
	"time"
)

// status answers where the payment stands, for the page's script.
func (h *handler) status(w http.ResponseWriter, r *http.Request, token string) {
	v := &visit{request: r, locale: h.locale(r), token: token}
	body, err := h.readStatus(v)
	w.Header().Set("Content-Type", "application/json")
	code := http.StatusOK
	if err != nil {
		f := h.announce(w, r, err)
		w.Header().Set("Content-Type", "application/problem+json")
		code, body = f.status, problem{Type: "about:blank", Title: http.StatusText(f.status), Status: f.status}
	}
	out, err := json.Marshal(body)
	if err != nil {
		h.log(r).Error().Err(err).Msg("the payment page's status failed")
	}
	w.WriteHeader(code)
	_, _ = w.Write(append(out, '\n'))
}

type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
}

type liveStatus struct {
	State    state `json:"state"`     // what the page would show
	Final    bool  `json:"final"`     // it will not change any more
	ClosesIn int   `json:"closes_in"` // seconds to the deadline, 0 after it

	// Left is the same in words of the page's language.
	Left string `json:"left"`
}

func (h *handler) readStatus(v *visit) (any, error) {
	if !readOnly(v.request) {
		return nil, &failure{status: http.StatusMethodNotAllowed, why: badMethod, allow: readMethods}
	}
	p, err := h.paymentBehind(v.request.Context(), v)
	if err != nil {
		return nil, err
	}
	now := h.now()
	s := stateOf(p, now)
	left := max(0, time.Duration(p.ExpiresAt-now)*time.Millisecond)
	return liveStatus{State: s, Final: s.final(), ClosesIn: seconds(left), Left: v.locale.left(left)}, nil
}
