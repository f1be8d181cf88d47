package docs

import (
	"net/http"

	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// name is what the API is called.
const name = "Payments and refunds"

// landingOf is the answer of a program's root path.
func landingOf(cfg Config) wire.Landing {
	return wire.Landing{
		Name: name, API: cfg.PublicURL + "/v1", OpenAPI: cfg.PublicURL + "/openapi.yaml",
		Docs: cfg.PublicURL + Path, Clients: cfg.PublicURL + Path + "/clients", Webhooks: cfg.PublicURL + Path + "/webhooks",
		Account: cfg.PublicURL + cfg.Account,
	}
}

// landingPage is the page at the root for people.
func landingPage(cfg Config) about {
	return about{"landing.html", map[string]any{"Title": name, "Account": cfg.Account}}
}

// Landing answers GET /: a page for people, JSON for programs.
func (p *Pages) Landing(x *edge.Exchange) error {
	x.Header().Add("Vary", "Accept")
	if !edge.Prefers(x.Request.Header["Accept"], "text/html", "application/json") {
		return x.Reply(http.StatusOK, p.landing)
	}
	return p.Text(x)
}
