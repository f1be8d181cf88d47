package httpapi

import (
	"net/http"
	"time"

	"payledger/domain/projects"
	"payledger/httpapi/checkout"
	"payledger/httpapi/conns"
	"payledger/httpapi/edge"
)

// For each request to the payment page that sends a form there may be formShare that read. The
// status polls of open pages have a separate limit, statusShare times that of reads: many customers
// share an address, and each page asks every two seconds.
const (
	formShare   = 10
	statusShare = 10
)

// checkoutConfig configures the payment page.
func checkoutConfig(cfg Config) checkout.Config {
	c := checkout.Config{
		Views: cfg.Views, Links: cfg.Links, Now: cfg.Now, PublicURL: cfg.PublicURL,
		Log: cfg.Log,
	}
	if cfg.Sandbox != nil {
		c.Sandbox = cfg.Sandbox
	}
	if cfg.Attempts != nil {
		c.Attempts = cfg.Attempts
	}
	reads, writes := edge.NewLimiter("page-reads"), edge.NewLimiter("page-forms")
	questions := edge.NewLimiter("page-status")
	c.Limit = func(r *http.Request, of projects.Project) (time.Duration, bool) {
		n, name := of.Settings.LimitsOver(cfg.Limits).RateCustomers, conns.Visitor(r)
		if of.Settings.RateCustomers != nil {
			name = of.ID + " " + name
		}
		l := reads
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			l, n = writes, (n+formShare-1)/formShare
		case checkout.AsksStatus(r):
			l, n = questions, n*statusShare
		}
		v := l.Take(name, edge.PerMinute(n), cfg.Now())
		return v.Wait, v.OK
	}
	return c
}
