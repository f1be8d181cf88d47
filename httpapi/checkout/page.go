package checkout

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"payledger/domain"
)

// visit is one request for the page.
type visit struct {
	request *http.Request
	locale  locale
	token   string // as in the path, not yet known to be one
	id      domain.ID
	version int // of the master key that opens the token
}

// state is what the page shows: the payment's status as far as it concerns
// the customer.
type state string

const (
	preparing state = "preparing" // no route yet; it can be paid in a moment
	open      state = "open"
	closed    state = "closed" // the deadline has passed, the result is still out
	paid      state = "paid"
	expired   state = "expired"
	failed    state = "failed"
)

func stateOf(p domain.Payment, now domain.Instant) state {
	switch {
	case p.Status == domain.Paid:
		return paid
	case p.Status == domain.Expired:
		return expired
	case p.Status == domain.Failed:
		return failed
	case now >= p.ExpiresAt:
		return closed
	case p.Status == domain.Created:
		return preparing
	}
	return open
}

func (s state) final() bool { return s == paid || s == expired || s == failed }

// refresh is after how many seconds a browser without script loads the page
// again; 0: never. A form is left alone longer, lest the customer lose it
// from under the finger.
func (s state) refresh(form bool) int {
	switch {
	case s.final():
		return 0
	case s == preparing:
		return 2
	case form:
		return 15
	}
	return 5
}

// view is what the template of the page is filled with.
type view struct {
	locale
	Root     string // relative address of /p/
	Switch   bool   // offer the other languages
	Others   []locale
	Here     string // relative address of this page, language included
	Token    string
	State    state
	Text     stateText
	Status   domain.PaymentStatus
	Final    bool
	Merchant string
	Amount   string
	Long     bool   // the amount needs small type on small screens
	Form     string // token of the form; empty: there is none
	Outcome  string // failures: what the form said
	Sandbox  bool
	Refresh  int
	ClosesAt domain.Instant
	Deadline string // that instant in words
	Left     string // time to it in words
	ClosesIn int    // seconds to it
}

// paymentBehind opens the token and reads its payment.
func (h *handler) paymentBehind(ctx context.Context, v *visit) (domain.Payment, error) {
	var ok bool
	if v.id, v.version, ok = h.Links.open(v.token); !ok {
		return domain.Payment{}, &failure{status: http.StatusNotFound, why: noPayment}
	}
	p, ok, err := h.Views.Payment(ctx, v.id)
	switch {
	case err != nil:
		return p, fmt.Errorf("reading payment %v: %w", v.id, err)
	case !ok:
		return p, &failure{status: http.StatusNotFound, why: noPayment}
	}
	return p, nil
}

// awaitRoute reads the payment anew until it has left the status created, or
// its deadline or the time to wait is over; it answers the last state read.
func (h *handler) awaitRoute(ctx context.Context, v *visit, p domain.Payment, wait time.Duration) (domain.Payment, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for pause := 10 * time.Millisecond; stateOf(p, h.now()) == preparing; pause = min(2*pause, 200*time.Millisecond) {
		select {
		case <-ctx.Done():
			return p, nil
		case <-time.After(pause):
		}
		next, err := h.paymentBehind(ctx, v)
		if ctx.Err() != nil {
			return p, nil
		}
		if err != nil {
			return p, err
		}
		p = next
	}
	return p, nil
}

func (h *handler) now() domain.Instant { return domain.InstantOf(h.Now()) }

// show answers the page in the payment's present state.
func (h *handler) show(w http.ResponseWriter, v *visit) error {
	ctx := v.request.Context()
	p, err := h.paymentBehind(ctx, v)
	if err != nil {
		return err
	}
	if p, err = h.awaitRoute(ctx, v, p, readyWait); err != nil {
		return err
	}
	project, ok, err := h.Views.Project(ctx, p.Project)
	switch {
	case err != nil:
		return fmt.Errorf("reading project %s: %w", p.Project, err)
	case !ok:
		return fmt.Errorf("payment %v is of project %s, which is unknown", p.ID, p.Project)
	}
	now := h.now()
	s := stateOf(p, now)
	page := view{
		locale: v.locale, Root: root(v.request), Switch: true, Others: h.others(v.locale), Here: v.here(), Token: v.token,
		State: s, Status: p.Status, Text: v.locale.States[s], Final: s.final(),
		Merchant: project.Name, Amount: v.locale.amount(p.Amount, p.Currency), Sandbox: h.Sandbox != nil,
		ClosesAt: p.ExpiresAt, Deadline: v.locale.moment(p.ExpiresAt),
	}
	page.Long = len([]rune(page.Amount)) > longAmount
	if !page.Final && s != closed {
		left := time.Duration(p.ExpiresAt-now) * time.Millisecond
		page.Left, page.ClosesIn = v.locale.left(left), seconds(left)
	}
	if s == open && h.Sandbox != nil {
		page.Form = h.Links.newForm(v)
	}
	page.Refresh = s.refresh(page.Form != "")
	return h.render(w, http.StatusOK, "page.html", page)
}

// longAmount is how many characters of an amount fit a small screen in large
// type.
const longAmount = 12

// seconds rounds up, so that 0 is reached at the deadline and not before.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// here is the page's address relative to /p/. The language is in it only when
// the customer chose one.
func (v *visit) here() string {
	if v.locale.chosen {
		return v.token + "?lang=" + v.locale.Lang
	}
	return v.token
}

// root is the relative address of /p/ as seen from the request's path. The
// program does not know under which path a proxy shows it, so every address on
// the page is relative.
func root(r *http.Request) string {
	rest, _ := strings.CutPrefix(r.URL.EscapedPath(), pathPrefix)
	if n := strings.Count(rest, "/"); n > 0 {
		return strings.Repeat("../", n)
	}
	return "./"
}

// render fills the template before the status is sent, so that a page comes
// whole or not at all.
func (h *handler) render(w http.ResponseWriter, status int, name string, data any) error {
	var b bytes.Buffer
	if err := h.templates.ExecuteTemplate(&b, name, data); err != nil {
		return fmt.Errorf("rendering %s: %w", name, err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the customer may have left
	return nil
}
