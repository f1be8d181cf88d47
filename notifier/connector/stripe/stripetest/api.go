package stripetest

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/notifier/connector/connectortest"
)

// The parameters of a session's one item.
const (
	item         = "line_items[0]"
	itemName     = item + "[price_data][product_data][name]"
	itemAmount   = item + "[price_data][unit_amount]"
	itemCurrency = item + "[price_data][currency]"
)

// saved is the answer to an idempotency key.
type saved struct {
	request string // path and parameters
	answer
}

type answer struct {
	status int
	body   object
}

// ServeHTTP is the API.
func (s *Stripe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		write(w, invalid("", "", "the form cannot be read"))
		return
	}
	fault := s.Next(r.Header.Get("Idempotency-Key") != "")
	s.mu.Lock()
	a, replayed := s.answer(r, fault)
	s.mu.Unlock()

	switch fault {
	case connectortest.Down, connectortest.ErrorAfter:
		panic(http.ErrAbortHandler) // the connection ends without an answer
	case connectortest.Silent:
		<-r.Context().Done()
		return
	case connectortest.Garbage:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>customer@example.com " + s.Key))
		return
	case connectortest.Endless:
		w.Header().Set("Content-Type", "application/json")
		for {
			if _, err := w.Write([]byte(strings.Repeat(" ", 1<<12))); err != nil {
				return
			}
		}
	case connectortest.Busy:
		w.Header().Set("Retry-After", "1")
	}
	if replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	write(w, a)
}

func write(w http.ResponseWriter, a answer) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", id("req_"))
	w.WriteHeader(a.status)
	_ = json.MarshalWrite(w, a.body)
}

func (s *Stripe) answer(r *http.Request, fault connectortest.Fault) (a answer, replayed bool) {
	switch {
	case r.Header.Get("Authorization") != "Bearer "+s.Key:
		return problem(http.StatusUnauthorized, "invalid_request_error", "", "", "Invalid API Key provided"), false
	case r.Header.Get("Stripe-Version") == "":
		return invalid("", "", "the version of the API is not pinned"), false
	case fault == connectortest.Down:
		return answer{}, false
	case fault == connectortest.ErrorBefore:
		return problem(http.StatusInternalServerError, "api_error", "", "", "An unknown error occurred"), false
	case fault == connectortest.Busy:
		return problem(http.StatusTooManyRequests, "invalid_request_error", "rate_limit", "", "Too many requests"), false
	}
	key := r.Header.Get("Idempotency-Key")
	if r.Method != http.MethodPost {
		key = ""
	}
	request := r.URL.Path + "?" + r.PostForm.Encode()
	if before, ok := s.keys[key]; ok {
		if before.request != request {
			return problem(http.StatusBadRequest, "idempotency_error", "", "", "Keys for idempotent requests can only be used with the same parameters they were first used with"), false
		}
		return before.answer, true
	}
	if fault == connectortest.StoredError {
		a = problem(http.StatusInternalServerError, "api_error", "", "", "An unknown error occurred")
	} else {
		a = s.route(r)
	}
	if key != "" {
		s.keys[key] = saved{request, a}
	}
	return a, false
}

func (s *Stripe) route(r *http.Request) answer {
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
	switch pattern := r.Method + " " + strings.Join(path[:min(len(path), 2)], "/"); {
	case pattern == "POST checkout/sessions" && len(path) == 2:
		return s.createSession(r.PostForm)
	case pattern == "GET checkout/sessions" && len(path) == 3, pattern == "POST checkout/sessions" && len(path) == 4 && path[3] == "expire":
		return s.session(path[2], r.Method == http.MethodPost)
	case pattern == "POST refunds":
		return s.createRefund(r.PostForm)
	case pattern == "GET refunds":
		return s.listRefunds(r.Form)
	case pattern == "GET disputes":
		page := []object{}
		for _, d := range slices.Backward(s.disputes) {
			if d.of.intent == r.Form.Get("payment_intent") {
				page = append(page, d.json())
			}
		}
		return answer{http.StatusOK, object{"object": "list", "url": "/v1/disputes", "has_more": false, "data": page}}
	case r.Method == http.MethodGet && path[0] == "payment_intents" && len(path) == 2:
		for _, o := range s.sessions {
			if o.intent == path[1] {
				return answer{http.StatusOK, object{"id": o.intent, "object": "payment_intent", "metadata": metadata(o.form, "payment_intent_data[metadata]")}}
			}
		}
	case r.Method == http.MethodGet && path[0] == "refunds" && len(path) == 2:
		for _, o := range s.refunds {
			if o.id == path[1] {
				return answer{http.StatusOK, o.json()}
			}
		}
	}
	return missing(r.URL.Path)
}

// sessionParams are those that package stripe may send: a misspelt one would be
// ignored at Stripe's peril.
func sessionParams() []string {
	return []string{
		"mode", "payment_method_types[0]", "adaptive_pricing[enabled]", "submit_type", "locale", "client_reference_id", "expires_at",
		"success_url", "cancel_url", item + "[quantity]", itemName, itemAmount, itemCurrency,
		"metadata[payledger_payment]", "metadata[payledger_project]", "metadata[payledger_attempt]",
		"payment_intent_data[metadata][payledger_payment]", "payment_intent_data[metadata][payledger_project]", "payment_intent_data[metadata][payledger_attempt]",
	}
}

func (s *Stripe) createSession(form url.Values) answer {
	want := sessionParams()
	for name := range form {
		if !slices.Contains(want, name) {
			return invalid("parameter_unknown", name, "unknown parameter")
		}
	}
	for _, name := range want {
		if form.Get(name) == "" {
			return invalid("parameter_missing", name, "missing parameter")
		}
	}
	amount, err := strconv.ParseInt(form.Get(itemAmount), 10, 64)
	expires, _ := strconv.ParseInt(form.Get("expires_at"), 10, 64)
	now, at := time.Now(), time.Unix(expires, 0)
	switch {
	case err != nil || form.Get(item+"[quantity]") != "1":
		return invalid("parameter_invalid_integer", itemAmount, "want one item")
	case amount < 50:
		return invalid("amount_too_small", itemAmount, "must convert to at least 50 cents")
	case amount > 99_999_999:
		return invalid("amount_too_large", itemAmount, "must be no more than 999,999.99")
	case at.Before(now.Add(30*time.Minute-time.Second)) || at.After(now.Add(24*time.Hour)):
		return invalid("", "expires_at", "must be between 30 minutes and 24 hours from now")
	case form.Get("mode") != "payment" || form.Get("payment_method_types[0]") != "card" || len(form.Get(itemCurrency)) != 3 || form.Get(itemCurrency) != strings.ToLower(form.Get(itemCurrency)):
		return invalid("", "mode", "want a payment by card, in a currency in lower case")
	case !slices.Contains([]string{"ru", "en", "auto"}, form.Get("locale")):
		return invalid("", "locale", "unknown locale")
	case form.Get("payment_intent_data[metadata][payledger_payment]") != form.Get("metadata[payledger_payment]"):
		return invalid("", "payment_intent_data", "Stripe's reports, which have the metadata of the PaymentIntent, will not name the payment")
	case form.Get("adaptive_pricing[enabled]") != "false":
		return invalid("", "adaptive_pricing", "the customer would pay in another currency")
	}
	o := &session{id: id("cs_test_"), form: form, amount: amount + s.surplus, status: "open", paymentStatus: "unpaid", expiresAt: at, created: now}
	s.sessions[o.id] = o
	return answer{http.StatusOK, o.json()}
}

func (s *Stripe) session(reference string, expire bool) answer {
	o, ok := s.sessions[reference]
	if !ok {
		return missing(reference)
	}
	open := s.open(reference) != nil
	switch {
	case expire && !open:
		return invalid("", "", `Only Checkout Sessions with a status in ["open"] can be expired.`)
	case expire:
		s.expire(o)
	}
	return answer{http.StatusOK, o.json()}
}

func (s *Stripe) createRefund(form url.Values) answer {
	var of *session
	for _, o := range s.sessions {
		if o.intent != "" && o.intent == form.Get("payment_intent") {
			of = o
		}
	}
	amount, err := strconv.ParseInt(form.Get("amount"), 10, 64)
	switch {
	case form.Get("metadata[payledger_refund]") == "" || form.Get("metadata[payledger_payment]") == "":
		return invalid("parameter_missing", "metadata", "the report will not name the refund")
	case of == nil:
		return missing(form.Get("payment_intent"))
	case err != nil || amount <= 0:
		return invalid("parameter_invalid_integer", "amount", "invalid integer")
	case s.unrefunded(of) == 0:
		return invalid("charge_already_refunded", "", "Charge has already been refunded.")
	case amount > s.unrefunded(of):
		return invalid("", "amount", "Refund amount is greater than unrefunded amount on charge")
	}
	return answer{http.StatusOK, s.refund(of, amount, "pending", metadata(form, "metadata")).json()}
}

// listRefunds lists the newest first, a page at a time.
func (s *Stripe) listRefunds(form url.Values) answer {
	limit, err := strconv.Atoi(form.Get("limit"))
	if err != nil || limit < 1 || limit > 100 {
		return invalid("", "limit", "want 1 to 100")
	}
	page, more, skip := []object{}, false, form.Get("starting_after")
	for _, r := range slices.Backward(s.refunds) {
		switch {
		case r.of.intent != form.Get("payment_intent"):
		case skip != "":
			if skip == r.id {
				skip = ""
			}
		case len(page) == limit:
			more = true
		default:
			page = append(page, r.json())
		}
	}
	return answer{http.StatusOK, object{"object": "list", "url": "/v1/refunds", "has_more": more, "data": page}}
}

func missing(what string) answer {
	return problem(http.StatusNotFound, "invalid_request_error", "resource_missing", "", "No such object: "+what)
}

// invalid is a refusal of what was asked for.
func invalid(code, param, message string) answer {
	return problem(http.StatusBadRequest, "invalid_request_error", code, param, message)
}

func problem(status int, kind, code, param, message string) answer {
	e := object{"type": kind, "message": message}
	if code != "" {
		e["code"] = code
	}
	if param != "" {
		e["param"] = param
	}
	return answer{status, object{"error": e}}
}
