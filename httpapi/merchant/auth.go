package merchant

import (
	"net/http"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/httpapi/conns"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// challenge is sent with every 401.
const challenge = `Bearer realm="payments"`

// authenticate finds the project and the key that a request carries. Every
// failure is the same answer after the same work: a header that cannot be
// read is checked as empty credentials, and an unknown project against a key
// that nobody has. Only failures count against the client's address, so valid
// credentials are never refused for those of others.
func (a *API) Authenticate(x *edge.Exchange) error {
	id, secret := credentials(x.Request.Header)
	project, known, err := a.cfg.Views.Project(x.Context(), id)
	if err != nil {
		return err
	}
	if !known {
		project = a.nobody
	}
	key, live := project.Authenticate(domain.HashKey(secret))
	if !known || !live {
		if err := x.Throttle(a.failures, conns.Peer(x.Request)); err != nil {
			return err
		}
		x.Header().Del("RateLimit")
		x.Header().Del("RateLimit-Policy")
		return wire.Problem{Code: domain.Unauthorized}.With("WWW-Authenticate", challenge)
	}
	return a.EnterAs(x, project, key)
}

// enterAs lets a request act for a caller whose key is live.
func (a *API) EnterAs(x *edge.Exchange, project domain.Project, key domain.Key) error {
	x.Project, x.Key = project, key
	if a.cfg.KeyTimes != nil {
		a.cfg.KeyTimes.Use(project.ID, key.ID, a.cfg.Now())
	}
	if project.Disabled {
		return wire.Problem{Code: domain.ProjectDisabledCode}
	}
	return nil
}

// recheck answers an error if the caller has lost the right to read. It is called
// before each part of a long answer, which must not outlive that right.
func (a *API) recheck(x *edge.Exchange) error {
	p, known, err := a.cfg.Views.Project(x.Context(), x.Project.ID)
	switch {
	case err != nil:
		return err
	case known && p.Disabled:
		return wire.Problem{Code: domain.ProjectDisabledCode}
	}
	i := slices.IndexFunc(p.Keys, func(k domain.Key) bool { return k.ID == x.Key.ID && !k.Revoked })
	switch {
	case !known || i < 0:
		return wire.Problem{Code: domain.Unauthorized}.With("WWW-Authenticate", challenge)
	case !p.Keys[i].Has(x.Route.Scope):
		return wire.Problem{Code: domain.ScopeMissing, RequiredScope: x.Route.Scope}
	}
	return nil
}

// credentials reads `Authorization: Bearer <project_id>:<api_key>`, split at
// the first colon. Whatever it cannot read is empty credentials.
func credentials(h http.Header) (project, secret string) {
	lines := h["Authorization"]
	if len(lines) != 1 {
		return "", ""
	}
	scheme, rest, ok := strings.Cut(lines[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", ""
	}
	rest = strings.TrimLeft(rest, " ")
	if strings.ContainsAny(rest, " \t,") {
		return "", ""
	}
	project, secret, ok = strings.Cut(rest, ":")
	if !ok {
		return "", ""
	}
	return project, secret
}

// nobody is the project that unknown ones are checked as. No secret has its
// key's hash.
func nobody() domain.Project {
	return domain.Project{Keys: []domain.Key{{}}}
}
