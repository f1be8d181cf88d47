package httpapi

import (
	"net/http"
	"time"

	"payledger/domain/projects"
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
	reads, writes := edge.NewLimiter("page-reads", cfg.Nodes), edge.NewLimiter("page-forms", cfg.Nodes)
	c.Limit = func(r *http.Request, of projects.Project) (time.Duration, bool) {
		n, name := of.Settings.LimitsOver(cfg.Limits).RateCustomers, conns.Visitor(r)
		if of.Settings.RateCustomers != nil {
			name = of.ID + " " + name
		}
		l := reads
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			l, n = writes, (n+formShare-1)/formShare
		}
		v := l.Take(name, edge.PerMinute(n), cfg.Now())
		return v.Wait, v.OK
	}
	return c
}
