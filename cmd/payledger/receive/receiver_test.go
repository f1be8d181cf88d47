package receive

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	testSecret  = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	otherSecret = "whsec_b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcm90aGVyISE="

	paymentA = "01M7W78FJBM8T4R7B5N0C1D2E3"
	paymentB = "01M7W78FJBM8T4R7B5N0C1D2E4"
	refundA  = "01M7W9XM20C2S9D4W6Y8Z1M3P5"
)

// inbox is a receiver that runs, and what it printed.
type inbox struct {
	url            string
	stdout, stderr *safeOutput
}

func listen(t *testing.T, c Options) *inbox {
	t.Helper()
	if c.Secrets == nil {
		c.Secrets = []string{testSecret}
	}
	l := &inbox{stdout: &safeOutput{}, stderr: &safeOutput{}}
	c.JSON, c.Stdout, c.Stderr = true, l.stdout, l.stderr
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	l.url = server.URL
	return l
}

// sent is a request to a receiver; the zero value of a member is what a good
// sender would do.
type sent struct {
	event   string
	secrets []string
	at      time.Time
	attempt int
	alter   func(*http.Request)
}

func paymentPaid(payment string, sequence int) string {
	return fmt.Sprintf(`{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C6","type":"payment.paid","timestamp":"2026-11-20T10:19:02.400Z","sequence":%d,"position":88417,`+
		`"data":{"id":%q,"status":"paid","amount":"1500.00","currency":"RUB","description":"чай ☕","payload":{},"created_at":"2026-11-20T10:15:30.123Z"}}`,
		sequence, payment)
}

const (
	refundDone = `{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C7","type":"refund.succeeded","timestamp":"2026-11-20T10:19:02.400Z","sequence":5,"position":88420,` +
		`"data":{"id":"` + refundA + `","payment_id":"` + paymentA + `","status":"succeeded","amount":"1500.00","currency":"RUB","created_at":"2026-11-20T10:15:30.123Z"}}`
	endpointTest = `{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C8","type":"endpoint.test","timestamp":"2026-11-20T10:19:02.400Z","data":{"endpoint_id":"we_1"}}`
)

// send answers the status and text of the answer.
func (l *inbox) send(t *testing.T, body string, s sent) (int, string) {
	t.Helper()
	if s.event == "" {
		s.event = "01M7W7EYW0Q6V8B0N5R7T2M4C6"
	}
	if s.secrets == nil {
		s.secrets = []string{testSecret}
	}
	if s.at.IsZero() {
		s.at = time.Now()
	}
	var signatures []string
	for _, secret := range s.secrets {
		w, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := w.Sign(s.event, s.at, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		signatures = append(signatures, signature)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.url+"/any/path?q=1", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Webhook-Id": {s.event}, "Webhook-Timestamp": {strconv.FormatInt(s.at.Unix(), 10)},
		"Webhook-Signature": {strings.Join(signatures, " ")}, "Webhook-Attempt": {strconv.Itoa(max(s.attempt, 1))},
	}
	if s.alter != nil {
		s.alter(req)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// printed waits for n lines on stdout and answers them.
func (l *inbox) printed(t *testing.T, n int) []notification {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); strings.Count(l.stdout.String(), "\n") < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("want %d lines, printed:\n%s", n, l.stdout)
		}
	}
	var all []notification
	for line := range strings.Lines(l.stdout.String()) {
		var r notification
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if len(all) != n {
		t.Fatalf("%d lines, want %d\n%s", len(all), n, l.stdout)
	}
	return all
}

// TestReceiverMovesForwardOnly: within a payment, refunds included, only what
// is above the last sequence counts, and everything else is answered 200 too.
func TestReceiverMovesForwardOnly(t *testing.T) {
	t.Parallel()
	l := listen(t, Options{})
	for i, step := range []struct{ body, want string }{
		{paymentPaid(paymentA, 3), ""},
		{paymentPaid(paymentA, 3), "ignored: sequence 3"},
		{paymentPaid(paymentA, 2), "ignored: sequence 3"},
		{paymentPaid(paymentB, 1), ""},
		{refundDone, ""},
		{paymentPaid(paymentA, 4), "ignored: sequence 5"},
		{endpointTest, ""},
		{endpointTest, ""},
	} {
		status, text := l.send(t, step.body, sent{attempt: 2})
		want := step.want
		if want == "" {
			want = "accepted"
		}
		if status != 200 || !strings.HasPrefix(text, want) {
			t.Errorf("step %d: %d %q, want 200 %q", i, status, text, want)
		}
	}
	all := l.printed(t, 8)
	if got := all[0]; got.PaymentID != paymentA || got.RefundID != "" || got.Status != "paid" || got.Amount != "1500.00" ||
		got.Currency != "RUB" || got.Sequence != 3 || got.Position != 88417 || got.Attempt != 2 || got.Answered != 200 || got.Note != "" {
		t.Errorf("%+v", got)
	}
	if got := all[4]; got.PaymentID != paymentA || got.RefundID != refundA || got.Type != "refund.succeeded" {
		t.Errorf("%+v", got)
	}
	if got := all[6]; got.EndpointID != "we_1" || got.PaymentID != "" {
		t.Errorf("%+v", got)
	}
}

// TestReceiverVerifies: what no secret of the endpoint signed just now is
// refused, and does not count as seen.
func TestReceiverVerifies(t *testing.T) {
	t.Parallel()
	l := listen(t, Options{Secrets: []string{otherSecret, testSecret}})
	body := paymentPaid(paymentA, 3)
	without := func(name string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Del(name) }
	}
	for name, c := range map[string]struct {
		sent
		status int
		says   string
	}{
		"another secret": {sent{secrets: []string{"whsec_" + strings.Repeat("QUJD", 11)}}, 401, "no signature fits"},
		"one byte altered": {sent{alter: func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(strings.Replace(body, "1500.00", "1500.01", 1)))
		}}, 401, "no signature fits"},
		"another id":   {sent{alter: func(r *http.Request) { r.Header.Set("Webhook-Id", "x") }}, 401, "no signature fits"},
		"too old":      {sent{at: time.Now().Add(-6 * time.Minute)}, 401, "five minutes old"},
		"too new":      {sent{at: time.Now().Add(6 * time.Minute)}, 401, "five minutes ahead"},
		"no id":        {sent{alter: without("Webhook-Id")}, 401, "not signed"},
		"no time":      {sent{alter: without("Webhook-Timestamp")}, 401, "not signed"},
		"no signature": {sent{alter: without("Webhook-Signature")}, 401, "not signed"},
		"not a time":   {sent{alter: func(r *http.Request) { r.Header.Set("Webhook-Timestamp", "now") }}, 401, "cannot be read"},
		"GET":          {sent{alter: func(r *http.Request) { r.Method, r.Body, r.ContentLength = "GET", nil, 0 }}, 405, "POST"},
		"too long": {sent{alter: func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(make([]byte, maxNotification+1))), maxNotification+1
		}}, 413, "too large"},
	} {
		status, text := l.send(t, body, c.sent)
		if status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %q, want %d %q", name, status, text, c.status, c.says)
		}
		if c.status != 405 && !strings.Contains(l.stderr.String(), c.says) {
			t.Errorf("%s: %q is not on stderr\n%s", name, c.says, l.stderr)
		}
	}
	for _, body := range []string{`{}`, `[1]`, `{"id":"1","type":"payment.paid","data":{"id":"2"}}`} {
		if status, text := l.send(t, body, sent{}); status != 400 || !strings.Contains(text, "no notification of payledger") {
			t.Errorf("%s: %d %q", body, status, text)
		}
	}
	for i, s := range []sent{{}, {secrets: []string{otherSecret}}, {secrets: []string{"whsec_" + strings.Repeat("QUJD", 11), testSecret}}} {
		if status, text := l.send(t, paymentPaid(paymentA, 3+i), s); status != 200 || text != "accepted\n" {
			t.Errorf("signed with %v: %d %q", s.secrets, status, text)
		}
	}
	l.printed(t, 3)
}

func TestReceiverFailsFirst(t *testing.T) {
	t.Parallel()
	l := listen(t, Options{FailFirst: 2})
	for i, want := range []int{500, 500, 200, 200} {
		if status, text := l.send(t, paymentPaid(paymentA, 3), sent{attempt: i + 1}); status != want {
			t.Errorf("attempt %d: %d %q, want %d", i+1, status, text, want)
		}
	}
	if all := l.printed(t, 4); !strings.Contains(all[0].Note, "--fail-first") || !strings.Contains(all[3].Note, "ignored") {
		t.Errorf("%+v", all)
	}
}

// TestReceiverForwards: the application behind sees what was sent, bytes and
// headers, and its answer is the answer. What it did not take comes again.
func TestReceiverForwards(t *testing.T) {
	t.Parallel()
	type request struct {
		target string
		header http.Header
		body   string
	}
	got := make(chan request, 10)
	answers := make(chan int, 10)
	application := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- request{r.URL.RequestURI(), r.Header, string(b)}
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(<-answers)
		io.WriteString(w, "from the application") //nolint:errcheck // seen in what the sender gets
	}))
	defer application.Close()
	l := listen(t, Options{ForwardTo: application.URL + "/hooks?shop=1"})
	body := paymentPaid(paymentA, 3)
	for _, status := range []int{500, 302, 202} {
		answers <- status
		var was http.Header
		answered, text := l.send(t, body, sent{alter: func(r *http.Request) { was = r.Header.Clone() }})
		if answered != status || text != "from the application" {
			t.Errorf("%d %q, want %d as from the application", answered, text, status)
		}
		r := <-got
		if r.target != "/hooks?shop=1" || r.body != body {
			t.Errorf("it got %q at %s", r.body, r.target)
		}
		was.Set("User-Agent", "Go-http-client/1.1")
		was.Set("Content-Length", strconv.Itoa(len(body)))
		for name := range r.header {
			if r.header.Get(name) != was.Get(name) {
				t.Errorf("%s: %q, was %q", name, r.header.Get(name), was.Get(name))
			}
		}
		if len(r.header) != len(was) {
			t.Errorf("headers %v, were %v", r.header, was)
		}
	}
	if status, text := l.send(t, body, sent{}); status != 200 || !strings.HasPrefix(text, "ignored") || len(got) > 0 {
		t.Errorf("seen before: %d %q", status, text)
	}
	application.Close()
	if status, text := l.send(t, paymentPaid(paymentB, 1), sent{}); status != 502 || !strings.Contains(text, "does not answer") {
		t.Errorf("%d %q", status, text)
	}
}

// TestReceiverTakesTurns: while one notification of a payment is under way,
// another of the same payment waits, and one of another payment does not.
func TestReceiverTakesTurns(t *testing.T) {
	t.Parallel()
	s := newLastSeen()
	_, leave, err := s.enter(t.Context(), paymentA)
	if err != nil {
		t.Fatal(err)
	}
	_, leaveB, err := s.enter(t.Context(), paymentB)
	if err != nil {
		t.Fatal(err)
	}
	leaveB(1)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.enter(gone, paymentA); err == nil {
		t.Fatal("two have their turn at the same time")
	}
	second := make(chan uint64)
	go func() {
		last, leave, err := s.enter(context.Background(), paymentA)
		if err == nil {
			leave(last)
		}
		second <- last
	}()
	leave(7)
	if last := <-second; last != 7 {
		t.Errorf("after sequence 7 the next one sees %d", last)
	}
	if len(s.busy) != 0 {
		t.Errorf("%d turns never end", len(s.busy))
	}
}

func TestReceiverForgetsTheOldest(t *testing.T) {
	t.Parallel()
	r := &recent{young: make(map[string]uint64)}
	for i := range 5 * remembered {
		r.put(strconv.Itoa(i), uint64(i)+1)
		if i >= remembered && r.at(strconv.Itoa(i-remembered+1)) == 0 {
			t.Fatalf("at %d, one of the newest %d is forgotten", i, remembered)
		}
		if n := len(r.young) + len(r.old); n > 2*remembered {
			t.Fatalf("%d are remembered", n)
		}
	}
	if r.at("0") != 0 {
		t.Error("nothing is ever forgotten")
	}
}

func TestReceiverPrintsForPeople(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 10, 19, 2, 0, time.Local)
	for want, n := range map[string]notification{
		"10:19:02  payment.paid  P  paid 1500.00 RUB  sequence 3  attempt 1  200": {
			ReceivedAt: at, Type: "payment.paid", PaymentID: "P", Status: "paid", Amount: "1500.00", Currency: "RUB", Sequence: 3, Attempt: 1, Answered: 200,
		},
		"10:19:02  refund.failed  R  failed 1.00 RUB  sequence 6  attempt 2  500, on purpose": {
			ReceivedAt: at, Type: "refund.failed", PaymentID: "P", RefundID: "R", Status: "failed", Amount: "1.00", Currency: "RUB", Sequence: 6, Attempt: 2,
			Answered: 500, Note: "on purpose",
		},
		"10:19:02  endpoint.test  we_1  200":            {ReceivedAt: at, Type: "endpoint.test", EndpointID: "we_1", Answered: 200},
		"10:19:02  endpoint.test  \uFFFD[2J\uFFFD  200": {ReceivedAt: at, Type: "endpoint.test", EndpointID: "\x1b[2J\n", Answered: 200},
	} {
		if got := n.line(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestListenRefusesSecretsThatProtectNothing(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"", "whsec_", "whsec_QUJD", strings.TrimPrefix(testSecret, "whsec_"), testSecret[:len(testSecret)-3] + "§§="} {
		if _, err := New(Options{Secrets: []string{testSecret, secret}}); err == nil || !strings.Contains(err.Error(), "--secret, number 2") {
			t.Errorf("%q: %v", secret, err)
		}
	}
}

// safeOutput is what a receiver prints, which may be read meanwhile.
type safeOutput struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeOutput) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeOutput) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
