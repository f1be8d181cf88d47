package account

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"payledger/domain"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// confirmPage is what webhook-rotate.html and webhook-remove.html are filled
// with: the question before something is done to an endpoint.
type confirmPage struct {
	pageData
	Endpoint wire.Endpoint
	Overlaps []overlap
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
	p := confirmPage{pageData: v.pageData(v.locale.T(title)), Endpoint: e}
	if fill != nil {
		fill(&p)
	}
	return v.render(http.StatusOK, template, p)
}

func (v *visit) confirmRotate() error {
	return v.confirm("webhook-rotate.html", "webhooks.rotate", func(p *confirmPage) {
		for _, d := range []time.Duration{0, time.Hour, domain.DefaultSecretOverlap, domain.MaxSecretOverlap} {
			o := overlap{Seconds: int(d.Seconds()), Text: p.Left(d), Chosen: d == domain.DefaultSecretOverlap}
			if d == 0 {
				o.Text = p.T("webhooks.at_once")
			}
			p.Overlaps = append(p.Overlaps, o)
		}
	})
}

func (v *visit) rotateSecret() error {
	length := domain.DefaultSecretOverlap
	if seconds, err := strconv.ParseInt(v.value("overlap"), 10, 32); err == nil {
		length = time.Duration(seconds) * time.Second
	}
	e, err := v.Webhooks.RotateSecret(v.ctx(), v.caller, v.vars["endpoint"], length)
	if err != nil {
		return err
	}
	return v.leaveToSecret(reveal{kind: "rotated", name: e.ID, secret: e.Secret, path: "webhooks/" + e.ID})
}

func (v *visit) confirmRemove() error {
	return v.confirm("webhook-remove.html", "webhooks.remove", nil)
}

func (v *visit) removeEndpoint() error {
	return v.tell("webhooks", func() error { return v.Webhooks.Remove(v.ctx(), v.caller, v.vars["endpoint"]) }, "webhooks.removed")
}

func (v *visit) enableEndpoint() error  { return act(v, v.Webhooks.Enable, "webhooks.enabled") }
func (v *visit) disableEndpoint() error { return act(v, v.Webhooks.Disable, "webhooks.disabled") }
func (v *visit) testEndpoint() error    { return act(v, v.Webhooks.Test, "webhooks.tested") }

// act does something to the endpoint and says on its page how it went.
func act[T any](v *visit, do func(ctx context.Context, c merchant.Caller, endpoint string) (T, error), word string) error {
	return v.tell(v.endpointPath(), func() error {
		_, err := do(v.ctx(), v.caller, v.vars["endpoint"])
		return err
	}, word)
}

// recoverDeliveries takes a time in UTC, in the form of a datetime-local field.
func (v *visit) recoverDeliveries() error {
	since, err := time.Parse("2006-01-02T15:04", v.value("since"))
	if err != nil {
		v.putNotice("bad", v.locale.T("webhooks.no_moment"))
		return v.leave(v.endpointPath())
	}
	answer, err := v.Webhooks.Recover(v.ctx(), v.caller, v.vars["endpoint"], domain.InstantOf(since))
	if err != nil {
		return v.tell(v.endpointPath(), func() error { return err }, "")
	}
	v.putNotice("good", v.locale.Plural("webhooks.recovered", answer.Enqueued))
	return v.leave(v.endpointPath())
}
