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

// PerSecond allows bursts of two seconds' worth.
func PerSecond(n int) Rate { return Rate{PerSecond: float64(n), Burst: 2 * n} }

// PerMinute allows bursts of a minute's worth.
func PerMinute(n int) Rate { return Rate{PerSecond: float64(n) / 60, Burst: n} }

// maxBuckets bounds the memory of a limiter. Beyond it the bucket that was
// unused for longest is forgotten, which by then is most likely full again.
const maxBuckets = 16_384

// Limiter keeps one token bucket per name. Safe for concurrent use.
type Limiter struct {
	policy string // its name in the RateLimit fields

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

// NewLimiter names the limiter in the RateLimit fields.
func NewLimiter(policy string) *Limiter {
	return &Limiter{policy: policy, byName: make(map[string]*list.Element), recent: list.New()}
}

// Take takes one token for name. The rate applies from now on: when it changes, the tokens in a
// name's bucket stay, up to the new burst.
func (l *Limiter) Take(name string, r Rate, now time.Time) Verdict {
	if r == (Rate{}) {
		return Verdict{OK: true}
	}
	return l.take(name, r, now)
}

func (l *Limiter) take(name string, r Rate, now time.Time) Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bucket(name, r, now)
	v := Verdict{OK: b.AllowN(now, 1)}
	tokens := b.TokensAt(now)
	v.remaining = max(0, int(tokens))
	v.full = r.after(float64(r.Burst) - tokens)
	if !v.OK {
		v.remaining = 0
		v.Wait = r.after(1 - tokens)
	}
	return v
}

// after is how long the tokens take to come.
func (r Rate) after(tokens float64) time.Duration {
	return time.Duration(max(0, tokens) / r.PerSecond * float64(time.Second))
}

func (l *Limiter) bucket(name string, r Rate, now time.Time) *bucket {
	if e, ok := l.byName[name]; ok {
		l.recent.MoveToFront(e)
		b := e.Value.(*bucket)
		if b.Limit() != rate.Limit(r.PerSecond) || b.Burst() != r.Burst {
			b.SetLimitAt(now, rate.Limit(r.PerSecond))
			b.SetBurstAt(now, r.Burst)
		}
		return b
	}
	if l.recent.Len() >= maxBuckets {
		oldest := l.recent.Back()
		delete(l.byName, oldest.Value.(*bucket).name)
		l.recent.Remove(oldest)
	}
	b := &bucket{name, rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst)}
	l.byName[name] = l.recent.PushFront(b)
	return b
}

// Allow takes one request in name's favour. The problem is 429 rate_limited.
// What is left is announced in the header, which may be nil, in the fields RateLimit
// and RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers. A zero rate lets
// everything pass.
func (l *Limiter) Allow(name string, r Rate, now time.Time, announced http.Header) error {
	if r == (Rate{}) {
		return nil
	}
	v := l.take(name, r, now)
	if announced != nil { // q is the quota, w the seconds in which it is restored, r what is left, t the seconds until all is
		window := r.after(float64(r.Burst))
		announced.Set("RateLimit-Policy", fmt.Sprintf("%q;q=%d;w=%d", l.policy, r.Burst, seconds(window)))
		announced.Set("RateLimit", fmt.Sprintf("%q;r=%d;t=%d", l.policy, v.remaining, seconds(v.full)))
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
