package httpapi

import (
	"net/http"
	"net/netip"
	"strings"
	"time"

	"payledger/httpapi/checkout"
)

// formShare is how many requests to the payment page there may be for each
// that sends a form.
const formShare = 10

// checkoutConfig is what the payment page is made of.
func checkoutConfig(cfg Config) checkout.Config {
	c := checkout.Config{
		Views: cfg.Views, Links: cfg.Links, Now: cfg.Now, Events: cfg.Ledger.Store, PublicURL: cfg.PublicURL,
		Stopping: cfg.Stopping, Log: cfg.Log,
	}
	if cfg.Sandbox != nil {
		c.Sandbox = cfg.Sandbox
	}
	if n := cfg.Limits.CustomersPerMinute; n > 0 {
		forms := max(1, n/formShare)
		reads := newLimiter("page-reads", Rate{PerSecond: float64(n) / 60, Burst: n})
		writes := newLimiter("page-forms", Rate{PerSecond: float64(forms) / 60, Burst: forms})
		c.Limit = func(r *http.Request) (time.Duration, bool) {
			l := writes
			if r.Method == http.MethodGet || r.Method == http.MethodHead {
				l = reads
			}
			v := l.take(visitorNetwork(r), cfg.Now())
			return v.wait, v.ok
		}
	}
	return c
}

// visitorNetwork is what people without a key are counted by: clientNetwork,
// or, when the request comes from this machine or a private network, the
// network that the proxy there says it came from. Only the last address of
// X-Forwarded-For counts: the nearest proxy wrote it, whoever wrote the others.
func visitorNetwork(r *http.Request) string {
	near, err := netip.ParseAddr(clientHost(r))
	lines := r.Header.Values("X-Forwarded-For")
	near = near.Unmap()
	if err != nil || len(lines) == 0 || (!near.IsLoopback() && !near.IsPrivate()) {
		return clientNetwork(r)
	}
	last := lines[len(lines)-1]
	if i := strings.LastIndexByte(last, ','); i >= 0 {
		last = last[i+1:]
	}
	far, err := netip.ParseAddr(strings.TrimSpace(last))
	if err != nil {
		return clientNetwork(r)
	}
	return network(far)
}
