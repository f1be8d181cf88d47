package bench

import (
	"errors"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLatencies(t *testing.T) {
	t.Parallel()
	var took []time.Duration
	for i := range 1000 {
		took = append(took, time.Duration(i+1)*time.Millisecond)
	}
	got := latencies(took[:300], took[300:])
	want := Latency{P50: 500, P99: 990, P999: 999, Max: 1000}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= b*0.002 })
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Errorf("latencies (-want +got):\n%s", diff)
	}
	if got := latencies(); got != (Latency{}) {
		t.Errorf("of nothing: %v", got)
	}
	if got := latencies([]time.Duration{time.Hour, 0}); got.Max < 59_000 || got.Max > 61_000 {
		t.Errorf("beyond its bounds: %v", got)
	}
}

func TestSeries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		s    series
		want float64
	}{
		{"nothing", nil, 0},
		{"one", series{7}, 7},
		{"odd", series{9, 1, 5}, 5},
		{"even", series{4, 1, 2, 100}, 3},
	} {
		if got := c.s.median(); got != c.want {
			t.Errorf("median of %s: %v, want %v", c.name, got, c.want)
		}
	}
	// A round in which the machine was slow slows both.
	own, base := series{100, 10, 120}, series{200, 20, 200}
	if got := own.over(base); got != 0.5 {
		t.Errorf("ratio %v, want that of the rounds, 0.5", got)
	}
	if got := own.over(series{0, 0, 0}); got != 0 {
		t.Errorf("ratio to nothing: %v", got)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	base := series{100}
	for _, c := range []struct {
		name string
		own  float64
		row  func(series) Row
		want string
	}{
		{"no goal", 1, func(series) Row { return Row{} }, VerdictNone},
		{"below the must", 39, atLeast(base), VerdictMissed},
		{"the must", 40, atLeast(base), VerdictMust},
		{"the aim", 85, atLeast(base), VerdictAim},
		{"above the must", 201, atMost(base), VerdictMissed},
		{"at the must", 200, atMost(base), VerdictMust},
		{"at the aim", 120, atMost(base), VerdictAim},
		{"nothing to compare with", 50, atLeast(series{0}), VerdictMissed},
		{"no latency to compare with", 50, atMost(series{0}), VerdictMissed},
	} {
		if got := c.row(series{c.own}).Verdict(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func atLeast(base series) func(series) Row {
	return func(s series) Row {
		return Row{Must: s.atLeast(0.40, "base", base), Aim: s.atLeast(0.85, "base", base)}
	}
}

func atMost(base series) func(series) Row {
	return func(s series) Row { return Row{Must: s.atMost(2, "base", base), Aim: s.atMost(1.2, "base", base)} }
}

// fake is a target in this process.
func fake(t *testing.T, h http.HandlerFunc) *target {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &target{name: "fake", addr: s.Listener.Addr().String(), Project: "prj_a", Key: "sk_a", pid: os.Getpid()}
}

const someID = "01M7W78FJBM8T4R7B5N0C1D2E3"

// TestVerify reads what was acknowledged from a service that forgets some of it.
func TestVerify(t *testing.T) {
	t.Parallel()
	var forget atomic.Bool
	s := fake(t, func(w http.ResponseWriter, r *http.Request) {
		got := strings.TrimPrefix(r.URL.Path, "/v1/payments/")
		if forget.Load() && strings.HasSuffix(got, "7") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Write([]byte(`{"id":"` + got + `"}`)) //nolint:errcheck // the client would tell
	})
	page := s.acks.page()
	for i := range 100 {
		p := acked{id: id([]byte(someID))}
		p.id[24], p.id[25] = byte('0'+i/10), byte('0'+i%10)
		*page = append(*page, p)
	}
	if n, err := s.verify(t.Context()); n != 100 || err != nil {
		t.Errorf("all are there: %d checked, %v", n, err)
	}
	forget.Store(true)
	_, err := s.verify(t.Context())
	lost, ok := errors.AsType[*LostError](err)
	if !ok || lost.Checked != 100 || lost.Lost != 10 || len(lost.First) != maxNamed {
		t.Errorf("ten are lost: %v", err)
	}
}

// TestClosedLoop counts what is answered as it should be, and what is not.
func TestClosedLoop(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	s := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header.Get("Idempotency-Key")) != 36 || r.Header.Get("Authorization") != "Bearer prj_a:sk_a" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if n.Add(1)%4 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte(`{"id":"` + someID + `"}`)) //nolint:errcheck // the client would tell
	})
	o, err := drive(t.Context(), s, load{Connections: 4, Duration: time.Minute}, upTo(100, create(&s.acks)))
	if err != nil {
		t.Fatal(err)
	}
	if o.All != 75 || o.Refused != 25 || !strings.Contains(o.Refusal, "503") || len(s.acks.all()) != 75 {
		t.Errorf("%d answered, %d refused (%s), %d in the book", o.All, o.Refused, o.Refusal, len(s.acks.all()))
	}
	keys := map[[36]byte]bool{}
	for _, p := range s.acks.all() {
		keys[p.key] = true
	}
	if len(keys) != 75 {
		t.Errorf("%d keys for 75 payments", len(keys))
	}
}

// TestOpenLoop: a server that stalls once is charged for all who were due.
func TestOpenLoop(t *testing.T) {
	t.Parallel()
	const stall = 100 * time.Millisecond
	var once atomic.Bool
	s := fake(t, func(w http.ResponseWriter, _ *http.Request) {
		if once.CompareAndSwap(false, true) {
			<-time.After(stall)
		}
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte(`{"id":"` + someID + `"}`)) //nolint:errcheck // the client would tell
	})
	o, err := drive(t.Context(), s, load{Connections: 1, Rate: 1000, Duration: 2 * stall}, create(&s.acks))
	if err != nil {
		t.Fatal(err)
	}
	// One connection: half of the 200 requests were due during the stall.
	if half := float64(stall/time.Millisecond) / 4; o.All < 150 || o.Latency.P50*2 < half/4 || o.Latency.P99 < half {
		t.Errorf("%d answered, latencies %+v: the stall of %v is not in them", o.All, o.Latency, stall)
	}
}

func TestClientRefusesWhatIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]string{
		"no HTTP":       "hello, this is not HTTP\r\n\r\n",
		"no length":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two answers":   "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\n",
		"cut short":     "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
		"a huge header": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxAnswer+1),
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			c, err := l.Accept()
			if err == nil {
				c.Write([]byte(sent)) //nolint:errcheck // the client would tell
				c.Close()
			}
		}()
		c, err := dial(t.Context(), l.Addr().String(), [32]byte{})
		if err != nil {
			t.Fatal(err)
		}
		if a, err := c.do([]byte("GET / HTTP/1.1\r\n\r\n")); err == nil {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		c.close()
		l.Close()
		<-served
	}
}

func TestReportInMarkdown(t *testing.T) {
	t.Parallel()
	r := Report{
		Machine: Machine{Processor: "p", Cores: 2, System: "s", Go: "g", FileSystem: "ext4", Sync: 0.2},
		Rows: []Row{
			{
				Name: "POST", Unit: "payments/s", Figure: 12_345, Beside: []Comparison{{"bare", 40_000, 0.31}},
				Must: &Goal{Comparison: Comparison{"ceiling", 20_000, 0.62}, Want: 0.4, Met: true},
				Aim:  &Goal{Comparison: Comparison{"ceiling+", 15_000, 0.82}, Want: 0.85},
			},
			{Name: "backlog", Unit: "s", Figure: 2.5, Must: figureAtMost(10, 2.5), Aim: figureAtMost(4, 2.5)},
			{Name: "disk", Unit: "KiB", Figure: 3},
		},
	}
	var b strings.Builder
	if err := r.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	want := `| what | figure | held against | ratio | must | aim | met |
|---|---|---|---|---|---|---|
| POST | 12.3 k payments/s | ceiling 20 k / ceiling+ 15 k / bare 40 k | 0.62 / 0.82 / 0.31 | ≥ 0.40 | ≥ 0.85 | must |
| backlog | 2.50 s |  |  | ≤ 10 | ≤ 4 | aim |
| disk | 3 KiB |  |  |  |  | - |
`
	if got, _, _ := strings.Cut(b.String(), "\n\n"); got+"\n" != want {
		t.Errorf("table:\n%s", cmp.Diff(want, got+"\n"))
	}
	before, behind, err := TableIn("a\n" + tableBegin + "old\n" + tableEnd + "z\n")
	if err != nil || before != "a\n"+tableBegin || behind != tableEnd+"z\n" {
		t.Errorf("%q, %q, %v", before, behind, err)
	}
	for _, text := range []string{"", tableBegin, tableEnd, tableEnd + tableBegin} {
		if _, _, err := TableIn(text); err == nil {
			t.Errorf("%q has a table", text)
		}
	}
}
