package yookassatest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/notifier/connector/connectortest"
)

// The limits of YooKassa.
const (
	maxKey         = 64
	maxBody        = 256 << 10
	maxDescription = 128
	maxReason      = 250 // the description of a refund
	maxURL         = 2048
	maxMetadata    = 16
	minPaid        = domain.Amount(1_00)
	maxPaid        = domain.Amount(1_000_000_00)
	perPage        = 10 // refunds; less than YooKassa's, so that pages are turned
)

// ServeHTTP serves the API and the customers' pages.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, isAPI := strings.CutPrefix(r.URL.Path, "/v3/")
	if !isAPI {
		f.servePage(w, r)
		return
	}
	// YooKassa keeps no errors for a key: after a 500 the same request with the same key is to be
	// repeated. So StoredError is like ErrorBefore, for every request.
	switch fault := f.Next(true); fault {
	case connectortest.Down:
		panic(http.ErrAbortHandler)
	case connectortest.ErrorBefore, connectortest.StoredError:
		refuse(w, 500, "internal_server_error", "")
	case connectortest.Busy:
		w.Header().Set("Retry-After", "1")
		refuse(w, 429, "too_many_requests", "")
	case connectortest.ErrorAfter, connectortest.Garbage, connectortest.Endless, connectortest.Silent, Processing:
		f.serveAPI(httptest.NewRecorder(), r, path)
		spoil(w, r, fault)
	default:
		f.serveAPI(w, r, path)
	}
}

// spoil answers a request that has been done.
func spoil(w http.ResponseWriter, r *http.Request, fault connectortest.Fault) {
	switch fault {
	case connectortest.ErrorAfter:
		panic(http.ErrAbortHandler)
	case connectortest.Garbage:
		_, _ = io.WriteString(w, "<html>Bad gateway</html>")
	case connectortest.Endless:
		for blank := bytes.Repeat([]byte(" "), 64<<10); ; {
			if _, err := w.Write(blank); err != nil {
				return
			}
		}
	case connectortest.Silent:
		<-r.Context().Done()
	case Processing:
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"type":"processing","description":"Request is being processed","retry_after":100}`)
	}
}

func refuse(w http.ResponseWriter, status int, code, parameter string) {
	body := map[string]string{
		"type": "error", "id": "249e2cf0-000f-5000-a000-1df11df15d3c", "code": code,
		"description": "Refused, and here is what was sent: +79990000000",
	}
	if parameter != "" {
		body["parameter"] = parameter
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(body))
}

func (f *Fake) serveAPI(w http.ResponseWriter, r *http.Request, path string) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return
	}
	if id, key, ok := r.BasicAuth(); !ok || id != ShopID || key != SecretKey {
		refuse(w, 401, "invalid_credentials", "")
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, strings.Join([]string{r.Method, r.URL.Path, r.Header.Get("Idempotence-Key"), string(body)}, " "))
	if r.Method == http.MethodGet {
		f.read(w, r, path)
		return
	}
	key := r.Header.Get("Idempotence-Key")
	if r.Method != http.MethodPost || key == "" || len(key) > maxKey {
		refuse(w, 400, "invalid_request", "Idempotence-Key")
		return
	}
	request := r.URL.Path + " " + string(body)
	if old, ok := f.keys[key]; ok && time.Since(old.at) < keptFor {
		if old.request != request {
			refuse(w, 400, "invalid_request", "Idempotence-Key")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(old.status)
		_, _ = w.Write(old.body)
		return
	}
	answer := httptest.NewRecorder()
	f.write(answer, path, body)
	if answer.Code == http.StatusOK {
		f.keys[key] = answered{request, answer.Code, answer.Body.Bytes(), time.Now()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func (f *Fake) read(w http.ResponseWriter, r *http.Request, path string) {
	if path == "refunds" {
		f.listRefunds(w, r)
		return
	}
	kind, id, _ := strings.Cut(path, "/")
	if p := f.payments[id]; kind == "payments" && p != nil {
		_, _ = w.Write(encode(p))
		return
	}
	for _, refund := range f.refunds {
		if kind == "refunds" && refund.ID == id {
			_, _ = w.Write(encode(refund))
			return
		}
	}
	refuse(w, 404, "not_found", "")
}

// listRefunds returns an empty list for a payment that does not exist.
func (f *Fake) listRefunds(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	page := struct {
		Type  string    `json:"type"`
		Items []*refund `json:"items"`
		Next  string    `json:"next_cursor,omitzero"`
	}{Type: "list", Items: []*refund{}}
	number := 0
	for _, refund := range f.refunds {
		if refund.PaymentID != r.URL.Query().Get("payment_id") {
			continue
		}
		if number++; number <= from {
			continue
		}
		if len(page.Items) == perPage {
			page.Next = strconv.Itoa(from + perPage)
			break
		}
		page.Items = append(page.Items, refund)
	}
	_, _ = w.Write(encode(page))
}

func (f *Fake) write(w http.ResponseWriter, path string, body []byte) {
	parts := strings.Split(path, "/")
	switch {
	case path == "payments":
		f.createPayment(w, body)
	case path == "refunds":
		f.createRefund(w, body)
	case len(parts) == 3 && parts[0] == "payments" && f.payments[parts[1]] != nil:
		p := f.payments[parts[1]]
		switch {
		case p.Status != "waiting_for_capture":
			refuse(w, 400, "invalid_request", "")
			return
		case parts[2] == "capture":
			f.collect(p)
		case parts[2] == "cancel":
			f.end(p, "merchant", "canceled_by_merchant")
		}
		_, _ = w.Write(encode(p))
	default:
		refuse(w, 404, "not_found", "")
	}
}

type paymentRequest struct {
	Amount  amount `json:"amount"`
	Capture bool   `json:"capture"`
	Method  struct {
		Type string `json:"type"`
	} `json:"payment_method_data"`
	Confirmation confirmation      `json:"confirmation"`
	Description  string            `json:"description"`
	Metadata     map[string]string `json:"metadata"`
	Receipt      jsontext.Value    `json:"receipt"`
}

func (f *Fake) createPayment(w http.ResponseWriter, body []byte) {
	var req paymentRequest
	if err := json.Unmarshal(body, &req, json.RejectUnknownMembers(true)); err != nil {
		refuse(w, 400, "invalid_request", "")
		return
	}
	if parameter := req.wrong(); parameter != "" {
		refuse(w, 400, "invalid_request", parameter)
		return
	}
	p := &payment{
		ID: f.newID(), Status: "pending", Amount: req.Amount, Description: req.Description, Metadata: req.Metadata,
		CreatedAt: stamp(time.Now()), Test: !f.live,
		capture: req.Capture, wrong: f.wrongAmount, returnURL: req.Confirmation.Return, locale: req.Confirmation.Locale,
	}
	p.Confirmation = &confirmation{Type: req.Confirmation.Type}
	page := f.options.Pages + "/pay/" + p.ID
	if req.Confirmation.Type == "qr" {
		p.Confirmation.Data = page
	} else {
		p.Confirmation.URL, p.Confirmation.Return = page, p.returnURL
	}
	f.payments[p.ID] = p
	_, _ = w.Write(encode(p))
}

// wrong names the parameter that YooKassa would not take; empty: all is well.
func (r *paymentRequest) wrong() string {
	n := r.Amount.minor()
	switch {
	case n < minPaid, n > maxPaid:
		return "amount.value"
	case r.Amount.Currency != "RUB" && r.Amount.Currency != "USD" && r.Amount.Currency != "EUR":
		return "amount.currency"
	case r.Method.Type == "sbp" && !r.Capture:
		return "capture"
	case r.Confirmation.Type != "redirect" && (r.Confirmation.Type != "qr" || r.Method.Type != "sbp"):
		return "confirmation.type"
	case r.Confirmation.Locale != "ru_RU" && r.Confirmation.Locale != "en_US":
		return "confirmation.locale"
	case r.Confirmation.Return == "", len(r.Confirmation.Return) > maxURL:
		return "confirmation.return_url"
	case tooLong(r.Description, maxDescription):
		return "description"
	case wrongMetadata(r.Metadata):
		return "metadata"
	case wrongReceipt(r.Receipt):
		return "receipt.items"
	}
	return ""
}

func wrongMetadata(m map[string]string) bool {
	for name, value := range m {
		if tooLong(name, 32) || tooLong(value, 512) {
			return true
		}
	}
	return len(m) > maxMetadata
}

func wrongReceipt(receipt jsontext.Value) bool {
	var r struct {
		Items []jsontext.Value `json:"items"`
	}
	return receipt != nil && (json.Unmarshal(receipt, &r) != nil || len(r.Items) == 0)
}

func (f *Fake) createRefund(w http.ResponseWriter, body []byte) {
	var req struct {
		PaymentID   string            `json:"payment_id"`
		Amount      amount            `json:"amount"`
		Description string            `json:"description"`
		Metadata    map[string]string `json:"metadata"`
		Receipt     jsontext.Value    `json:"receipt"`
	}
	if err := json.Unmarshal(body, &req, json.RejectUnknownMembers(true)); err != nil {
		refuse(w, 400, "invalid_request", "")
		return
	}
	p, n := f.payments[req.PaymentID], req.Amount.minor()
	switch {
	case p == nil:
		refuse(w, 404, "not_found", "payment_id")
	case p.Status != "succeeded":
		refuse(w, 400, "invalid_request", "payment_id")
	case n == 0, req.Amount.Currency != p.Amount.Currency, n+f.returned(p, true) > p.Amount.minor():
		refuse(w, 400, "invalid_request", "amount.value")
	case tooLong(req.Description, maxReason), wrongMetadata(req.Metadata):
		refuse(w, 400, "invalid_request", "metadata")
	case wrongReceipt(req.Receipt):
		refuse(w, 400, "invalid_request", "receipt.items")
	default:
		r := f.addRefund(p, req.Amount)
		r.Description = req.Description
		if !f.noMetadata {
			r.Metadata = req.Metadata
		}
		_, _ = w.Write(encode(r))
	}
}
