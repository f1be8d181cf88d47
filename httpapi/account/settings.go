package account

import (
	"net/http"
	"time"
)

func settingsPages() []page {
	return []page{{method: "GET", path: "settings", serve: (*visit).showSettings}}
}

// settingsPage is what settings.html is filled with.
type settingsPage struct {
	pageData
	Lifetime string // of a payment's link
	Base     string // of the API
}

func (v *visit) showSettings() error {
	p := settingsPage{pageData: v.pageData(v.Locale.T("settings.title")), Base: v.PublicURL}
	p.Lifetime = p.Left(time.Duration(v.Caller.Project.Settings.LifetimeSeconds) * time.Second)
	return v.Render(http.StatusOK, "settings.html", p)
}
