package account

import (
	"net/http"
	"strconv"
	"time"

	"payledger/domain"
)

// confirmPage is what webhook-rotate.html and webhook-remove.html are filled
// with: the question before something is done to an endpoint.
type confirmPage struct {
	pageData
	Endpoint endpoint
	Overlaps []overlap
}

// overlap is how long the secret before a rotation stays good.
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
	seconds, err := strconv.Atoi(v.value("overlap"))
	if err != nil {
		seconds = int(domain.DefaultSecretOverlap.Seconds())
	}
	e, err := post[endpoint](v, v.endpointPath()+"/rotate-secret", map[string]any{"overlap_seconds": seconds})
	if err != nil {
		return err
	}
	return v.leaveToSecret(reveal{kind: "rotated", name: e.ID, secret: e.Secret, path: "webhooks/" + e.ID})
}

func (v *visit) confirmRemove() error {
	return v.confirm("webhook-remove.html", "webhooks.remove", nil)
}

func (v *visit) removeEndpoint() error {
	return v.tell("webhooks", func() error {
		_, err := send[struct{}](v, http.MethodDelete, v.endpointPath(), nil, nil)
		return err
	}, "webhooks.removed")
}

// act has the API do something to the endpoint and says on its page how it
// went.
func (v *visit) act(action string, body any, word string) error {
	return v.tell("webhooks/"+v.vars["endpoint"], func() error {
		_, err := v.ask(http.MethodPost, v.endpointPath()+"/"+action, nil, body)
		return err
	}, word)
}

func (v *visit) enableEndpoint() error  { return v.act("enable", nil, "webhooks.enabled") }
func (v *visit) disableEndpoint() error { return v.act("disable", nil, "webhooks.disabled") }
func (v *visit) testEndpoint() error    { return v.act("test", nil, "webhooks.tested") }

// recoverDeliveries takes a moment in UTC, as a browser writes it into a field
// of that type.
func (v *visit) recoverDeliveries() error {
	path := "webhooks/" + v.vars["endpoint"]
	since, err := time.Parse("2006-01-02T15:04", v.value("since"))
	if err != nil {
		v.putNotice("bad", v.locale.T("webhooks.no_moment"))
		return v.leave(path)
	}
	var answer struct {
		Enqueued int `json:"enqueued"`
	}
	answer, err = post[struct {
		Enqueued int `json:"enqueued"`
	}](v, v.endpointPath()+"/recover", map[string]any{"since": since.Format(time.RFC3339)})
	if err != nil {
		return v.tell(path, func() error { return err }, "webhooks.tested")
	}
	v.putNotice("good", v.locale.Plural("webhooks.recovered", answer.Enqueued))
	return v.leave(path)
}
