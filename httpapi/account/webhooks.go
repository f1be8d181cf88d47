package account

import (
	"net/http"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/httpapi/wire"
)

func (h *handler) webhookPages() []page {
	if h.Webhooks == nil {
		return nil
	}
	const one = "webhooks/{endpoint}"
	return []page{
		{method: "GET", path: "webhooks", serve: (*visit).listEndpoints},
		{method: "GET", path: "webhooks/new", serve: (*visit).newEndpoint},
		{method: "POST", path: "webhooks/new", serve: (*visit).addEndpoint},
		{method: "GET", path: one, serve: (*visit).showEndpoint},
		{method: "GET", path: one + "/edit", serve: (*visit).editEndpoint},
		{method: "POST", path: one + "/edit", serve: (*visit).changeEndpoint},
		{method: "GET", path: one + "/rotate", serve: (*visit).confirmRotate},
		{method: "POST", path: one + "/rotate", serve: (*visit).rotateSecret},
		{method: "GET", path: one + "/remove", serve: (*visit).confirmRemove},
		{method: "POST", path: one + "/remove", serve: (*visit).removeEndpoint},
		{method: "POST", path: one + "/enable", serve: (*visit).enableEndpoint},
		{method: "POST", path: one + "/disable", serve: (*visit).disableEndpoint},
		{method: "POST", path: one + "/test", serve: (*visit).testEndpoint},
		{method: "POST", path: one + "/recover", serve: (*visit).recoverDeliveries},
		{method: "GET", path: one + "/deliveries/{event}", serve: (*visit).showDelivery},
		{method: "POST", path: one + "/deliveries/{event}/resend", serve: (*visit).resendDelivery},
	}
}

// endpoint is a webhook endpoint as its merchant sees it.
type endpoint struct {
	ID          string                 `json:"id"`
	URL         string                 `json:"url"`
	Kinds       []domain.Kind          `json:"kinds"`
	Description *string                `json:"description"`
	Status      string                 `json:"status"`
	Reason      *domain.DisabledReason `json:"disabled_reason"`
	DisabledAt  *domain.Instant        `json:"disabled_at"`
	CreatedAt   domain.Instant         `json:"created_at"`
	Secret      string                 `json:"secret"` // in answers that make one only
	Previous    *domain.Instant        `json:"previous_secret_until"`
	Health      domain.EndpointHealth  `json:"health"`
}

// Enabled reports whether notifications are sent.
func (e endpoint) Enabled() bool { return e.Status == "enabled" }

// Why is the reason it is disabled for, "" while it is not.
func (e endpoint) Why() domain.DisabledReason {
	if e.Reason == nil {
		return ""
	}
	return *e.Reason
}

// About is the merchant's own words for it, "" if there are none.
func (e endpoint) About() string {
	if e.Description == nil {
		return ""
	}
	return *e.Description
}

const endpointsPath = "/v1/webhook-endpoints"

// endpointPath is that of the endpoint the page is about. Ids need no
// escaping, and what is none has no endpoint.
func (v *visit) endpointPath() string { return endpointsPath + "/" + v.vars["endpoint"] }

func (v *visit) endpoint() (endpoint, error) { return get[endpoint](v, v.endpointPath(), nil) }

// endpointsPage is what webhooks.html is filled with.
type endpointsPage struct {
	pageData
	Endpoints []endpoint
	Full      bool // no more can be added
}

func (v *visit) listEndpoints() error {
	list, err := get[wire.Page[endpoint]](v, endpointsPath, map[string][]string{"limit": {"100"}})
	if err != nil {
		return err
	}
	return v.render(http.StatusOK, "webhooks.html", endpointsPage{
		pageData: v.pageData(v.locale.T("webhooks.title")), Endpoints: list.Data, Full: len(list.Data) >= domain.MaxEndpoints,
	})
}

// endpointForm is what webhook-form.html is filled with.
type endpointForm struct {
	pageData
	ID         string // "" for a new one
	URL, About string
	Groups     []kindGroup
}

// kindGroup are the kinds about one sort of object.
type kindGroup struct {
	Of    string // payment or refund
	Kinds []kindChoice
}

type kindChoice struct {
	Kind    domain.Kind
	Checked bool
}

func (v *visit) endpointForm(title string, chosen []domain.Kind) endpointForm {
	f := endpointForm{pageData: v.pageData(v.locale.T(title)), ID: v.vars["endpoint"]}
	for _, k := range domain.Kinds() {
		of, _, _ := strings.Cut(string(k), ".")
		if len(f.Groups) == 0 || f.Groups[len(f.Groups)-1].Of != of {
			f.Groups = append(f.Groups, kindGroup{Of: of})
		}
		g := &f.Groups[len(f.Groups)-1]
		g.Kinds = append(g.Kinds, kindChoice{Kind: k, Checked: slices.Contains(chosen, k)})
	}
	return f
}

func (v *visit) newEndpoint() error {
	return v.render(http.StatusOK, "webhook-form.html", v.endpointForm("webhooks.new", domain.FinalKinds()))
}

func (v *visit) editEndpoint() error {
	e, err := v.endpoint()
	if err != nil {
		return err
	}
	f := v.endpointForm("webhooks.edit", e.Kinds)
	f.URL, f.About = e.URL, e.About()
	return v.render(http.StatusOK, "webhook-form.html", f)
}

// wish is what a form says of an endpoint. It is refused here where the API
// would take "no kinds" for "as it is".
func (v *visit) wish() (body map[string]any, kinds []domain.Kind) {
	for _, k := range v.form["kinds"] {
		kinds = append(kinds, domain.Kind(k))
	}
	return map[string]any{
		"url": strings.TrimSpace(v.value("url")), "description": v.value("about"), "kinds": kinds,
	}, kinds
}

// sendEndpoint has the API make or change an endpoint; ok is false when the
// form was shown again.
func (v *visit) sendEndpoint(title, path string) (made endpoint, ok bool, err error) {
	body, kinds := v.wish()
	again := func(status int, tell func(*endpointForm)) error {
		f := v.endpointForm(title, kinds)
		f.URL, f.About = v.value("url"), v.value("about")
		tell(&f)
		return v.render(status, "webhook-form.html", f)
	}
	if len(kinds) == 0 {
		return made, false, again(http.StatusUnprocessableEntity, func(f *endpointForm) {
			f.Fields = map[string]string{"kinds": f.T("webhooks.no_kind")}
			f.Alert = &notice{Tone: "bad", Text: f.T("account.check_fields")}
		})
	}
	made, err = post[endpoint](v, path, body)
	if p := v.refusal(err); p != nil {
		return made, false, again(p.Status, func(f *endpointForm) {
			f.refuse(p)
			for i := range p.Errors {
				if p.Errors[i].Pointer == "#/url" && p.Errors[i].Detail != "" && f.Lang == "en" {
					f.Fields["url"] = p.Errors[i].Detail // says what stands in the way
				}
			}
		})
	}
	return made, err == nil, err
}

func (v *visit) addEndpoint() error {
	made, ok, err := v.sendEndpoint("webhooks.new", endpointsPath)
	if err != nil || !ok {
		return err
	}
	return v.leaveToSecret(reveal{kind: "webhook", name: made.ID, secret: made.Secret, path: "webhooks/" + made.ID})
}

func (v *visit) changeEndpoint() error {
	_, ok, err := v.sendEndpoint("webhooks.edit", v.endpointPath())
	if err != nil || !ok {
		return err
	}
	return v.done("webhooks/"+v.vars["endpoint"], "webhooks.changed")
}
