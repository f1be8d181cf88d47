package httpapi

import (
	"net/http"
	"time"

	"payledger/httpapi/checkout"
	"payledger/httpapi/conns"
	"payledger/httpapi/edge"
)

// formShare is how many requests to the payment page there may be for each
// that sends a form.
const formShare = 10

// checkoutConfig is what the payment page is made of.
func checkoutConfig(cfg Config) checkout.Config {
	c := checkout.Config{
		Views: cfg.Views, Links: cfg.Links, Now: cfg.Now, Events: cfg.Ledger.Store, PublicURL: cfg.PublicURL,
		Stopping: cfg.Stopping, Log: cfg.Log, Visitor: conns.Visitor, MaxStreams: cfg.MaxStreams,
	}
	if cfg.Sandbox != nil {
		c.Sandbox = cfg.Sandbox
	}
	if cfg.Attempts != nil {
		c.Attempts = cfg.Attempts
	}
	if n := cfg.Limits.CustomersPerMinute; n > 0 {
		forms := max(1, n/formShare)
		reads := edge.NewLimiter("page-reads", edge.Rate{PerSecond: float64(n) / 60, Burst: n})
		writes := edge.NewLimiter("page-forms", edge.Rate{PerSecond: float64(forms) / 60, Burst: forms})
		c.Limit = func(r *http.Request) (time.Duration, bool) {
			l := writes
			if r.Method == http.MethodGet || r.Method == http.MethodHead {
				l = reads
			}
			v := l.Take(conns.Visitor(r), cfg.Now())
			return v.Wait, v.OK
		}
	}
	return c
}
