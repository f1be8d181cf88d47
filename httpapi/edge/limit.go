package edge

import (
	"container/list"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"payledger/domain"
	"payledger/httpapi/wire"

	"golang.org/x/time/rate"
)

// Rate is a token bucket: Burst requests at once, PerSecond on average. A
// zero Rate is no limit.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Limits bound how often the API may be called.
type Limits struct {
	Writes              Rate // per project: every request that may change something
	Reads               Rate // per project: every other
	FailedAuthPerMinute int  // per client address; 0: no limit
	CustomersPerMinute  int  // requests to the payment page per client address, forms a tenth of it; 0: no limit
}

// DefaultLimits are the limits of a server without flags for them.
func DefaultLimits() Limits {
	return Limits{
		Writes:              Rate{PerSecond: 25, Burst: 50},
		Reads:               Rate{PerSecond: 100, Burst: 200},
		FailedAuthPerMinute: 10,
		CustomersPerMinute:  600,
	}
}

// maxBuckets bounds the memory of a limiter. Beyond it the bucket that was
// unused for longest is forgotten, which by then is most likely full again.
const maxBuckets = 16_384

// Limiter keeps one token bucket per name. A nil *limiter lets everything
// pass. Safe for concurrent use.
type Limiter struct {
	policy string // its name in the RateLimit fields
	rate   Rate

	mu     sync.Mutex
	byName map[string]*list.Element
	recent *list.List // of *bucket, the one used last in front
}

type bucket struct {
	name string
	*rate.Limiter
}

// Verdict is a limiter's answer.
type Verdict struct {
	OK        bool
	remaining int           // whole requests left
	full      time.Duration // until the bucket is full again
	Wait      time.Duration // until the next request can pass; 0 when ok
}

// NewLimiter is nil, which lets everything pass, for a rate of zero.
func NewLimiter(policy string, r Rate) *Limiter {
	if r.PerSecond == 0 {
		return nil
	}
	return &Limiter{policy: policy, rate: r, byName: make(map[string]*list.Element), recent: list.New()}
}

// Take asks for one request in name's favour.
func (l *Limiter) Take(name string, now time.Time) Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bucket(name)
	v := Verdict{OK: b.AllowN(now, 1)}
	tokens := b.TokensAt(now)
	v.remaining = max(0, int(tokens))
	v.full = l.after(float64(l.rate.Burst) - tokens)
	if !v.OK {
		v.remaining = 0
		v.Wait = l.after(1 - tokens)
	}
	return v
}

func (l *Limiter) after(tokens float64) time.Duration {
	return time.Duration(max(0, tokens) / l.rate.PerSecond * float64(time.Second))
}

func (l *Limiter) bucket(name string) *bucket {
	if e, ok := l.byName[name]; ok {
		l.recent.MoveToFront(e)
		return e.Value.(*bucket)
	}
	if l.recent.Len() >= maxBuckets {
		oldest := l.recent.Back()
		delete(l.byName, oldest.Value.(*bucket).name)
		l.recent.Remove(oldest)
	}
	b := &bucket{name, rate.NewLimiter(rate.Limit(l.rate.PerSecond), l.rate.Burst)}
	l.byName[name] = l.recent.PushFront(b)
	return b
}

// announce writes the RateLimit and RateLimit-Policy fields of
// draft-ietf-httpapi-ratelimit-headers: q is the quota, w the seconds in
// which it is restored, r what is left and t the seconds until all is.
func (l *Limiter) announce(h http.Header, v Verdict) {
	window := l.after(float64(l.rate.Burst))
	h.Set("RateLimit-Policy", fmt.Sprintf("%q;q=%d;w=%d", l.policy, l.rate.Burst, seconds(window)))
	h.Set("RateLimit", fmt.Sprintf("%q;r=%d;t=%d", l.policy, v.remaining, seconds(v.full)))
}

// Allow takes one request in name's favour. The problem is 429 rate_limited.
// What is left is announced in the header, which may be nil. A nil limiter
// lets everything pass.
func (l *Limiter) Allow(name string, now time.Time, announced http.Header) error {
	if l == nil {
		return nil
	}
	v := l.Take(name, now)
	if announced != nil {
		l.announce(announced, v)
	}
	if v.OK {
		return nil
	}
	return wire.Problem{Code: domain.RateLimited}.With("Retry-After", strconv.Itoa(max(1, seconds(v.Wait))))
}

func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// clientHost is the address the request came from, without the port.
func clientHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
