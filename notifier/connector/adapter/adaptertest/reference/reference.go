// Package reference is an adapter to start from: a provider in memory, whose page has a button to
// pay. It depends on payledger only through its OpenAPI document. A real adapter keeps its attempts
// on disk, and calls its provider where this one reads a map.
package reference

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Adapter is an http.Handler for the calls of payledger and for the page.
type Adapter struct {
	Secret   *standardwebhooks.Webhook
	Page     string                 // public https address of this server, for customers
	TestMode bool                   // POST /test pays and declines
	Slow     bool                   // refunds stay open until they are changed
	Changed  func(reference string) // notifies payledger; may be nil

	mu       sync.Mutex
	attempts map[string]*State // by reference
}

// State is an attempt, or one of its refunds, as payledger is answered; with
// Error, why there is none.
type State struct {
	Error     string   `json:"error,omitempty"`
	ID        string   `json:"id,omitempty"` // of a refund that payledger asked for
	Reference string   `json:"reference,omitempty"`
	Phase     string   `json:"phase,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	Amount    string   `json:"amount,omitempty"`
	Currency  string   `json:"currency,omitempty"`
	HandOff   *HandOff `json:"hand_off,omitempty"`
	Refunds   []*State `json:"refunds,omitempty"`

	Disputes []*Dispute `json:"disputes,omitempty"`

	Asked Call `json:"-"`
}

// Dispute is a customer who has the bank take the money of a paid attempt back.
type Dispute struct {
	Reference     string    `json:"reference"`
	Status        string    `json:"status"`
	Reason        string    `json:"reason"`
	Amount        string    `json:"amount"`
	Currency      string    `json:"currency"`
	OpenedAt      time.Time `json:"opened_at"`
	EvidenceDueBy time.Time `json:"evidence_due_by"`
}

// HandOff sends the customer to the page.
type HandOff struct {
	Kind string `json:"kind"`
	URL  string `json:"url"`
}

// Call is the body of a call, as far as it is used here.
type Call struct {
	Call    string `json:"call"`
	Outcome string `json:"outcome"`
	Attempt struct {
		Key       string `json:"key"`
		Reference string `json:"reference"`
		Amount    string `json:"amount"`
		Currency  string `json:"currency"`
		Payment   string `json:"payment_id"`
		ReturnURL string `json:"return_url"`
	} `json:"attempt"`
	Refund struct {
		ID       string `json:"id"`
		Amount   string `json:"amount"`
		Currency string `json:"currency"`
	} `json:"refund"`
}

// ServeHTTP answers a call, or a customer.
func (a *Adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if reference, ok := strings.CutPrefix(r.URL.Path, "/pay/"); ok {
		a.page(w, r, reference)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
		return
	}
	if a.Secret.Verify(body, r.Header) != nil {
		http.Error(w, "not signed with the secret, or not now", http.StatusUnauthorized)
		return
	}
	var c Call
	if json.Unmarshal(body, &c) != nil || "/"+c.Call != r.URL.Path {
		http.Error(w, "no such call", http.StatusBadRequest)
		return
	}
	status, answer := a.do(c)
	id, now := r.Header.Get("webhook-id"), time.Now()
	signature, _ := a.Secret.Sign(id, now, answer)
	w.Header().Set("webhook-id", id)
	w.Header().Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	w.Header().Set("webhook-signature", signature)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

// do answers a call with the status and the body.
func (a *Adapter) do(c Call) (status int, body []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var answer *State
	reference := c.Attempt.Reference
	if c.Call == "begin" {
		reference = "ref-" + c.Attempt.Key // so each key has one attempt
	}
	at := a.attempts[reference]
	switch {
	case c.Call == "begin" && at == nil:
		at = &State{Reference: reference, Phase: "open", Amount: c.Attempt.Amount, Currency: c.Attempt.Currency, Asked: c}
		at.HandOff = &HandOff{Kind: "redirect", URL: a.Page + "/pay/" + reference}
		if a.attempts == nil {
			a.attempts = make(map[string]*State)
		}
		a.attempts[reference], answer = at, at
	case at == nil || at.Asked.Attempt.Payment != c.Attempt.Payment || c.Call == "test" && !a.TestMode:
		status, answer = http.StatusNotFound, &State{Error: "not_found"}
	case c.Call == "begin" && (c.Attempt.Amount != at.Asked.Attempt.Amount || c.Attempt.Currency != at.Asked.Attempt.Currency):
		status, answer = http.StatusUnprocessableEntity, &State{Error: "refused", Reason: "key_used"}
	case c.Call == "refund" && (at.Phase != "paid" || c.Refund.Amount != at.Amount || c.Refund.Currency != at.Currency):
		status, answer = http.StatusUnprocessableEntity, &State{Error: "refused", Reason: "not_paid"}
	case c.Call == "refund":
		answer = a.refund(at, c.Refund.ID)
	case c.Call == "cancel":
		at.End("closed", "cancelled")
		answer = at
	case c.Call == "test" && c.Outcome == "paid":
		at.End("paid", "")
		answer = at
	case c.Call == "test" && c.Outcome == "returned":
		at.TakeBack("account_closed")
		answer = at
	case c.Call == "test" && c.Outcome == "disputed":
		at.Dispute()
		answer = at
	case c.Call == "test" && strings.HasPrefix(c.Outcome, "dispute_"):
		at.EndDispute(strings.TrimPrefix(c.Outcome, "dispute_"))
		answer = at
	case c.Call == "test":
		at.End("closed", "card_declined")
		answer = at
	default: // begin again, read
		answer = at
	}
	body, err := json.Marshal(answer)
	if err != nil {
		panic(err) // there are only strings in it
	}
	return max(status, http.StatusOK), body
}

func (a *Adapter) refund(at *State, id string) *State {
	r := &State{ID: id, Reference: "refund-" + id, Phase: "paid", Amount: at.Amount, Currency: at.Currency}
	if a.Slow {
		r.Phase = "open"
	}
	for _, other := range at.Refunds {
		if other.ID == id {
			return other
		}
		if other.Phase != "closed" { // the money is gone
			r.Phase, r.Reason = "closed", "refunded_at_provider"
		}
	}
	at.Refunds = append(at.Refunds, r)
	return r
}

// End ends an attempt. It returns false for one that has ended.
func (at *State) End(phase, reason string) bool {
	if at.Phase != "open" {
		return false
	}
	at.Phase, at.Reason, at.HandOff = phase, reason, nil
	return true
}

// TakeBack closes the refund that returned the attempt's money, or is about to: the customer's bank
// did not take it. It returns the refund, nil if there is none.
func (at *State) TakeBack(reason string) *State {
	for _, r := range at.Refunds {
		if r.Phase != "closed" {
			r.Phase, r.Reason = "closed", reason
			return r
		}
	}
	return nil
}

// Dispute opens a dispute of an attempt that is paid. It returns false if it is not, or disputed already.
func (at *State) Dispute() bool {
	n := len(at.Disputes)
	if at.Phase != "paid" || n > 0 && at.Disputes[n-1].Status == "open" {
		return false
	}
	now := time.Now().UTC()
	at.Disputes = append(at.Disputes, &Dispute{
		Reference: fmt.Sprintf("dispute-%d-%s", n+1, at.Reference), Status: "open", Reason: "fraudulent", Amount: at.Amount, Currency: at.Currency,
		OpenedAt: now, EvidenceDueBy: now.AddDate(0, 0, 7),
	})
	return true
}

// EndDispute ends the dispute that is open as won or lost. It returns false if there is none.
func (at *State) EndDispute(status string) bool {
	n := len(at.Disputes)
	if n == 0 || at.Disputes[n-1].Status != "open" {
		return false
	}
	at.Disputes[n-1].Status = status
	return true
}

// Change changes an attempt, and notifies payledger if change answers true.
func (a *Adapter) Change(reference string, change func(*State) bool) bool {
	a.mu.Lock()
	at := a.attempts[reference]
	changed := at != nil && change(at)
	a.mu.Unlock()
	if changed && a.Changed != nil {
		a.Changed(reference)
	}
	return changed
}

// Each shows all attempts, which must not be kept.
func (a *Adapter) Each(show func(*State)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.attempts {
		show(at)
	}
}

func (a *Adapter) page(w http.ResponseWriter, r *http.Request, reference string) {
	var back, sum string
	a.Change(reference, func(at *State) bool {
		back, sum = at.Asked.Attempt.ReturnURL, at.Amount+" "+at.Currency
		switch {
		case r.Method != http.MethodPost:
			return false
		case r.FormValue("pay") != "":
			return at.End("paid", "")
		}
		return at.End("closed", "card_declined")
	})
	switch {
	case back == "":
		http.NotFound(w, r)
	case r.Method == http.MethodPost:
		http.Redirect(w, r, back, http.StatusSeeOther)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, `<!DOCTYPE html><title>Pay</title><form method="post"><p>%s</p>`+
			`<button name="pay" value="1">Pay</button> <button name="decline" value="1">Decline</button></form>`, html.EscapeString(sum))
	}
}
