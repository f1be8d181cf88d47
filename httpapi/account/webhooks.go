package account

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/webhooks"
	"payledger/httpapi/wire"
)

// endpoint is the one that the page is about.
func (v *visit) endpoint() (wire.Endpoint, error) {
	return v.Webhooks.Endpoint(v.Ctx(), v.Caller, v.Vars["endpoint"])
}

// endpointPath is where the page of that endpoint is.
func (v *visit) endpointPath() string { return "webhooks/" + v.Vars["endpoint"] }

// EndpointState says how an endpoint does, in lists and on its page.
func (d pageData) EndpointState(e wire.Endpoint) template.HTML {
	if e.Enabled() && e.Health.FailingSince != nil {
		return d.Tag("bad", d.T("webhooks.failing"))
	}
	return d.Badge(e.Status)
}

// endpointsPage is what webhooks.html is filled with.
type endpointsPage struct {
	pageData
	Endpoints []wire.Endpoint
	Full      bool // no more can be added
}

func (v *visit) listEndpoints() error {
	list, err := v.Webhooks.Endpoints(v.Ctx(), v.Caller, url.Values{"limit": {"100"}})
	if err != nil {
		return err
	}
	return v.Render(http.StatusOK, "webhooks.html", endpointsPage{
		pageData: v.pageData(v.Locale.T("webhooks.title")), Endpoints: list.Data, Full: len(list.Data) >= projects.MaxEndpoints,
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
	f := endpointForm{pageData: v.pageData(v.Locale.T(title)), ID: v.Vars["endpoint"]}
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
	return v.Render(http.StatusOK, "webhook-form.html", v.endpointForm("webhooks.new", domain.FinalKinds()))
}

func (v *visit) editEndpoint() error {
	e, err := v.endpoint()
	if err != nil {
		return err
	}
	f := v.endpointForm("webhooks.edit", e.Kinds)
	f.URL, f.About = e.URL, f.Text(e.Description)
	return v.Render(http.StatusOK, "webhook-form.html", f)
}

// sendEndpoint has an endpoint made or changed as the form says, and then answers. A form that is refused
// is shown again.
func (v *visit) sendEndpoint(title string, send func(webhooks.Request) (wire.Endpoint, error), then func(wire.Endpoint) error) error {
	target, about := strings.TrimSpace(v.Value("url")), v.Value("about")
	req := webhooks.Request{EditEndpoint: projects.EditEndpoint{URL: &target, Description: &about}}
	for _, k := range v.form["kinds"] {
		req.Kinds = append(req.Kinds, domain.Kind(k))
	}
	again := func() endpointForm {
		f := v.endpointForm(title, req.Kinds)
		f.URL, f.About = v.Value("url"), about
		return f
	}
	if len(req.Kinds) == 0 { // which would leave them as they are
		f := again()
		f.WrongField("kinds", f.T("webhooks.no_kind"))
		return v.Render(http.StatusUnprocessableEntity, "webhook-form.html", f)
	}
	made, err := send(req)
	if p := v.Refusal(err); p != nil {
		f := again()
		f.Refuse(p)
		for _, wrong := range p.Errors {
			if wrong.Pointer == "#/url" && f.Lang == "en" {
				f.Fields["url"] = wrong.Detail // says why the address is refused
			}
		}
		return v.Render(p.Status, "webhook-form.html", f)
	}
	if err != nil {
		return err
	}
	return then(made)
}

func (v *visit) addEndpoint() error {
	return v.sendEndpoint("webhooks.new", func(req webhooks.Request) (wire.Endpoint, error) {
		random := v.Random("endpoint")
		req.Random = (*[10]byte)(random[:])
		return v.Webhooks.Add(v.Ctx(), v.Caller, req)
	}, func(made wire.Endpoint) error {
		return v.ShowSecret(secret{Kind: "webhook", Name: made.ID, Secret: made.Secret, Path: "webhooks/" + made.ID})
	})
}

func (v *visit) changeEndpoint() error {
	return v.sendEndpoint("webhooks.edit", func(req webhooks.Request) (wire.Endpoint, error) {
		return v.Webhooks.Change(v.Ctx(), v.Caller, v.Vars["endpoint"], req)
	}, func(wire.Endpoint) error { return v.Done(v.endpointPath(), "webhooks.changed") })
}
