package account

import (
	"net/http"
	"time"

	"payledger/httpapi/edge"
)

// settingsPage is what settings.html is filled with.
type settingsPage struct {
	pageData
	Lifetime string // of a payment's link
	Base     string // of the API

	Writes, Reads string // rates of the API
	Idle, Longest string // of sessions
}

func (v *visit) showSettings() error {
	limits := v.API.Limits(v.Caller.Project)
	seconds := func(n int) string { return v.Locale.Left(time.Duration(n) * time.Second) }
	return v.Render(http.StatusOK, "settings.html", settingsPage{
		pageData: v.pageData(v.Locale.T("settings.title")), Base: v.config.PublicURL,
		Lifetime: seconds(v.Caller.Project.Settings.LifetimeSeconds),
		Writes:   v.rate(limits.RateWrites), Reads: v.rate(limits.RateReads),
		Idle: seconds(limits.SessionIdleSeconds), Longest: seconds(limits.SessionMaxSeconds),
	})
}

// rate is a rate a second in words.
func (v *visit) rate(n int) string {
	if n == 0 {
		return v.Locale.T("settings.unlimited")
	}
	return v.Locale.T("settings.rate", "Number", v.Locale.Number(int64(n)), "Burst", v.Locale.Number(int64(edge.PerSecond(n).Burst)))
}
