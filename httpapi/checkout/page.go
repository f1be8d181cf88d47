package checkout

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"time"
	"unicode"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/edge"
	"payledger/httpapi/ui"
	"payledger/httpapi/wire"
)

// visit is one request for the page.
type visit struct {
	x       *edge.Exchange
	request *http.Request // that of x
	locale  *ui.Locale
	token   string // as in the path, not yet known to be one
	id      domain.ID
	version int // of the master key that opens the token

	asksStatus bool // it is an open page's question for its payment's status
}

// leave sends the browser to another address.
func (v *visit) leave(to string) error {
	v.x.Header().Set("Location", to)
	v.x.WriteHeader(http.StatusSeeOther)
	return nil
}

// state is what the page shows: the payment's status as far as it concerns
// the customer.
type state string

const (
	preparing  state = "preparing" // no route yet; soon it can be paid
	open       state = "open"
	redirected state = "redirected" // the customer was sent to the provider
	declined   state = "declined"   // the last attempt failed; another may be begun
	paused     state = "paused"     // the operator has paused the route, and no attempt is open
	orphaned   state = "orphaned"   // the route's connector is gone, so the provider is not polled
	closed     state = "closed"     // the deadline has passed, the result is still out
	paid       state = state(domain.Paid)
	expired    state = state(domain.Expired)
	failed     state = state(domain.Failed)
)

func stateOf(p domain.Payment, now domain.Instant) state {
	switch {
	case p.Status.Final():
		return state(p.Status)
	case now >= p.ExpiresAt:
		return closed
	case p.Status == domain.Created:
		return preparing
	}
	if n := len(p.Attempts); n > 0 {
		switch p.Attempts[n-1].Status {
		case domain.AttemptOffered:
			return redirected
		case domain.AttemptFailed:
			return declined
		}
	}
	return open
}

// stateOf is the payment's state, including why its customer cannot pay.
func (h *handler) stateOf(p domain.Payment) state {
	s := stateOf(p, h.now())
	if h.Attempts == nil || s != preparing && !s.payable() {
		return s
	}
	_, open := p.OpenAttempt()
	switch obstacle := h.Attempts.Obstacle(p); {
	case obstacle == RouteGone:
		return orphaned
	case obstacle == RoutePaused && !open:
		return paused
	}
	return s
}

// payable reports whether the customer may pay now.
func (s state) payable() bool { return s == open || s == redirected || s == declined }

func (s state) final() bool { return s == paid || s == expired || s == failed }

// refresh is after how many seconds a browser without script loads the page
// again; 0: never. A page with a form waits longer, so that the form does not
// disappear while the customer presses a button.
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

// view is what the templates are filled with.
type view struct {
	ui.Page
	Heading  string
	Note     string
	Here     string // relative address of this page, language included
	Token    string
	State    state
	Status   domain.PaymentStatus
	Final    bool
	Merchant string
	Initial  string // of the merchant's name; may be empty
	Sum      string
	Long     bool   // the amount needs small type on small screens
	Form     string // token of the form; empty: there is none
	Outcome  string // failures: what the form said
	Sandbox  bool
	Payable  bool
	Provider string        // the provider's name, where the form leads to it
	Real     bool          // the form leads to a provider, known by name or not
	Bank     string        // link of the hand-off's QR code
	BankQR   template.HTML // the hand-off's QR code; then there is none of the link
	ClosesAt domain.Instant
	Left     string        // time to it in words
	ClosesIn int           // seconds to it
	QR       template.HTML // of the payment's link, while it can be paid
	Receipt  *receipt
	Shop     string // where the customer came from, once the outcome is known; "": unknown
}

// view has what every page of the visit has.
func (h *handler) view(v *visit, heading string) view {
	return view{Page: h.site.Page(v.request, v.locale, pathPrefix, heading), Heading: heading}
}

// paymentBehind opens the token and reads its payment.
func (h *handler) paymentBehind(ctx context.Context, v *visit) (domain.Payment, error) {
	none := &failure{status: http.StatusNotFound, why: noPayment, cause: wire.Problem{Code: domain.PathNotFound}}
	var ok bool
	if v.id, v.version, ok = h.Links.open(v.token); !ok {
		return domain.Payment{}, none
	}
	p, ok, err := h.Views.Payment(ctx, v.id)
	switch {
	case err != nil:
		return p, fmt.Errorf("reading payment %v: %w", v.id, err)
	case !ok:
		return p, none
	}
	return p, nil
}

func (h *handler) now() domain.Instant { return domain.InstantOf(h.Now()) }

// show answers the page in the payment's present state.
func (h *handler) show(v *visit) error {
	ctx := v.x.Context()
	p, err := h.paymentBehind(ctx, v)
	if err != nil {
		return err
	}
	returned := v.request.URL.Query().Has(returnedQuery)
	if returned {
		h.asLeft(v, p)
	}
	project, err := h.projectOf(ctx, p)
	if err != nil {
		return err
	}
	page, err := h.pageOf(v, p, project)
	if err != nil {
		return err
	}
	if h.Attempts != nil && !page.Final && page.State != closed {
		allowHandOff(v.x.Header()) // the script may put the form in later, and the policy stays
	}
	if page.Real && page.State == redirected && returned {
		h.Attempts.Wake(p.ID)
		page.Refresh = page.State.refresh(false) // the customer waits for the result
	}
	return ui.Render(v.x, http.StatusOK, h.templates, "page.html", page)
}

func (h *handler) projectOf(ctx context.Context, p domain.Payment) (projects.Project, error) {
	project, ok, err := h.Views.Project(ctx, p.Project)
	switch {
	case err != nil:
		return project, fmt.Errorf("reading project %s: %w", p.Project, err)
	case !ok:
		return project, fmt.Errorf("payment %v is of project %s, which is unknown", p.ID, p.Project)
	}
	return project, nil
}

func (h *handler) pageOf(v *visit, p domain.Payment, project projects.Project) (view, error) {
	now := h.now()
	s := h.stateOf(p)
	page := h.view(v, v.locale.T("state."+string(s)))
	page.Here, page.Token = v.here(), v.token
	page.Provider, page.Real = h.provider(p)
	page.State, page.Status, page.Final, page.Payable = s, p.Status, s.final(), s.payable()
	page.Merchant, page.Initial, page.Sandbox = project.Name, initial(project.Name), h.Sandbox != nil && !page.Real
	page.Sum = v.locale.Amount(p.Amount, p.Currency)
	page.Long = len([]rune(page.Sum)) > longAmount
	page.Title += " · " + page.Sum + " · " + isolate(project.Name)
	page.Note = v.locale.T("checkout.awaiting")
	if s != open {
		page.Note = v.locale.T("note." + string(s))
	}
	if !page.Final && s != closed {
		left := time.Duration(p.ExpiresAt-now) * time.Millisecond
		page.ClosesAt, page.Left, page.ClosesIn = p.ExpiresAt, v.locale.Left(left), seconds(left)
	}
	if page.Final {
		page.Shop = project.Settings.ShopURL
	}
	if s == paid {
		page.Receipt = receiptOf(v.locale, p)
	}
	if s.payable() && (page.Real || h.Sandbox != nil) {
		page.Form = h.Links.newForm(v)
	}
	if s == open && page.Real {
		page.Note = v.locale.T("checkout.at_provider")
	}
	page.Refresh = s.refresh(page.Form != "")
	var err error
	if hand := h.shown(p); s == redirected && hand != nil && hand.Kind == domain.HandOffQR {
		page.Form, page.Note, page.Refresh = "", v.locale.T("checkout.scan"), s.refresh(false) // a form would lead to the same code
		page.Bank = hand.URL
		page.BankQR, err = ui.QR(hand.URL)
	} else if s.payable() {
		page.QR, err = ui.QR(p.Link.Base + pathPrefix + v.token)
	}
	return page, err
}

// shown is the hand-off of the payment's open attempt, where it is at hand.
func (h *handler) shown(p domain.Payment) *domain.HandOff {
	a, ok := p.OpenAttempt()
	if !ok || h.Attempts == nil {
		return nil
	}
	return h.Attempts.Shown(p.ID, a.Number)
}

// isolate keeps a name in a right-to-left script from changing the direction of the text next to
// it.
func isolate(name string) string { return "\u2068" + name + "\u2069" }

// initial is the first letter or digit of a name, which may have none.
func initial(name string) string {
	for _, r := range name {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return string(unicode.ToUpper(r))
		}
	}
	return ""
}

// longAmount is how many characters of an amount fit a small screen in large
// type.
const longAmount = 12

// seconds rounds up, so that 0 is reached at the deadline and not before.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// here is the page's address relative to /p/. The language is in it only when
// the customer chose one.
func (v *visit) here() string {
	if v.locale.Chosen {
		return v.token + "?lang=" + v.locale.Lang
	}
	return v.token
}
