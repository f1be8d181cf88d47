package account

import (
	"net/http"
	"time"
)

func (h *handler) settingsPages() []page {
	return []page{{method: "GET", path: "settings", serve: (*visit).showSettings}}
}

// settingsPage is what settings.html is filled with.
type settingsPage struct {
	pageData
	Lifetime string // of a payment's link
	Base     string // of the API
}

func (v *visit) showSettings() error {
	p := settingsPage{pageData: v.pageData(v.locale.T("settings.title")), Base: v.PublicURL}
	p.Lifetime = p.Left(time.Duration(v.caller.Project.Settings.LifetimeSeconds) * time.Second)
	return v.render(http.StatusOK, "settings.html", p)
}
