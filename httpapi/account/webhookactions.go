package account

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/merchant"
	"payledger/httpapi/webhooks"
	"payledger/httpapi/wire"
)

// confirmPage is what webhook-rotate.html and webhook-remove.html are filled
// with: the question before something is done to an endpoint.
type confirmPage struct {
	pageData
	Endpoint   wire.Endpoint
	Overlaps   []overlap
	Generation int // of the secret that there is
}

// overlap is how long the previous secret stays valid after a rotation.
type overlap struct {
	Seconds int
	Text    string
	Chosen  bool
}

func (v *visit) confirm(template, title string, fill func(*confirmPage)) error {
	e, err := v.endpoint()
	if err != nil {
		return err
	}
	p := confirmPage{pageData: v.pageData(v.Locale.T(title)), Endpoint: e}
	fill(&p)
	return v.Render(http.StatusOK, template, p)
}

func (v *visit) confirmRotate() error {
	return v.confirm("webhook-rotate.html", "webhooks.rotate", func(p *confirmPage) {
		e, _ := v.Caller.Project.Endpoint(p.Endpoint.ID)
		p.Generation = e.Secret.Generation
		for _, d := range []time.Duration{0, time.Hour, projects.DefaultSecretOverlap, projects.MaxSecretOverlap} {
			o := overlap{Seconds: int(d.Seconds()), Text: p.Left(d), Chosen: d == projects.DefaultSecretOverlap}
			if d == 0 {
				o.Text = p.T("webhooks.at_once")
			}
			p.Overlaps = append(p.Overlaps, o)
		}
	})
}

func (v *visit) rotateSecret() error {
	from, err := strconv.Atoi(v.Value("generation"))
	if err != nil || from < 1 {
		return &failure{Status: http.StatusBadRequest, Why: "form"}
	}
	r := webhooks.Rotation{Overlap: projects.DefaultSecretOverlap, From: from}
	if seconds, err := strconv.ParseInt(v.Value("overlap"), 10, 32); err == nil {
		r.Overlap = time.Duration(seconds) * time.Second
	}
	e, err := v.Webhooks.RotateSecret(v.Ctx(), v.Caller, v.Vars["endpoint"], r)
	if err != nil {
		return err
	}
	return v.ShowSecret(secret{Kind: "rotated", Name: e.ID, Secret: e.Secret, Path: "webhooks/" + e.ID})
}

func (v *visit) confirmRemove() error {
	return v.confirm("webhook-remove.html", "webhooks.remove", func(*confirmPage) {})
}

func (v *visit) removeEndpoint() error {
	err := v.Webhooks.Remove(v.Ctx(), v.Caller, v.Vars["endpoint"])
	if p := v.Refusal(err); p != nil && p.Code == domain.WebhookEndpointNotFound {
		err = nil // the form came twice
	}
	return v.Tell("webhooks", err, "webhooks.removed")
}

func (v *visit) enableEndpoint() error  { return act(v, v.Webhooks.Enable, "webhooks.enabled") }
func (v *visit) disableEndpoint() error { return act(v, v.Webhooks.Disable, "webhooks.disabled") }
func (v *visit) testEndpoint() error    { return act(v, v.Webhooks.Test, "webhooks.tested") }

// act does something to the endpoint and says on its page how it went.
func act[T any](v *visit, do func(ctx context.Context, c merchant.Caller, endpoint string) (T, error), word string) error {
	_, err := do(v.Ctx(), v.Caller, v.Vars["endpoint"])
	return v.Tell(v.endpointPath(), err, word)
}

// recoverDeliveries takes a time in UTC, in the form of a datetime-local field.
func (v *visit) recoverDeliveries() error {
	since, err := time.Parse("2006-01-02T15:04", v.Value("since"))
	if err != nil {
		v.PutNotice("bad", v.Locale.T("webhooks.no_moment"))
		return v.Leave(v.endpointPath())
	}
	answer, err := v.Webhooks.Recover(v.Ctx(), v.Caller, v.Vars["endpoint"], domain.InstantOf(since))
	if err != nil {
		return v.Tell(v.endpointPath(), err, "")
	}
	v.PutNotice("good", v.Locale.Plural("webhooks.recovered", answer.Enqueued))
	return v.Leave(v.endpointPath())
}
