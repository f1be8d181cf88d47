package edge

import (
	"container/list"
	"fmt"
	"math"
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

// NewLimiter names the limiter in the RateLimit fields.
func NewLimiter(policy string) *Limiter {
	return &Limiter{policy: policy, byName: make(map[string]*list.Element), recent: list.New()}
}

// seconds is how many whole seconds the tokens take to come.
func (r Rate) seconds(tokens float64) int {
	d := time.Duration(max(0, tokens) / r.PerSecond * float64(time.Second)) // whole nanoseconds: a minute is 60 s
	return int(math.Ceil(d.Seconds()))
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
// everything pass. The rate applies from now on: when it changes, the tokens in a
// name's bucket stay, up to the new burst.
func (l *Limiter) Allow(name string, r Rate, now time.Time, announced http.Header) error {
	if r == (Rate{}) {
		return nil
	}
	l.mu.Lock()
	b := l.bucket(name, r, now)
	ok, tokens := b.AllowN(now, 1), b.TokensAt(now)
	l.mu.Unlock()
	if announced != nil { // q is the quota, w the seconds in which it is restored, r what is left, t the seconds until all is
		announced.Set("RateLimit-Policy", fmt.Sprintf("%q;q=%d;w=%d", l.policy, r.Burst, r.seconds(float64(r.Burst))))
		announced.Set("RateLimit", fmt.Sprintf("%q;r=%d;t=%d", l.policy, max(0, int(tokens)), r.seconds(float64(r.Burst)-tokens)))
	}
	if ok {
		return nil
	}
	return wire.Problem{Code: domain.RateLimited}.With("Retry-After", strconv.Itoa(max(1, r.seconds(1-tokens))))
}
