package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/httpapi/conns"
)

// challenge is sent with every 401.
const challenge = `Bearer realm="payments"`

// authenticate finds the project and the key that a request carries. Every
// failure is the same answer after the same work: a header that cannot be
// read is checked as empty credentials, and an unknown project against a key
// that nobody has. Only failures count against the client's address, so valid
// credentials are never refused for those of others.
func (a *merchants) authenticate(x *exchange) error {
	id, secret := credentials(x.r.Header)
	project, known, err := a.cfg.Views.Project(x.ctx(), id)
	if err != nil {
		return err
	}
	if !known {
		project = a.nobody
	}
	key, live := project.Authenticate(domain.HashKey(secret))
	if !known || !live {
		if err := x.throttle(a.failures, conns.Peer(x.r)); err != nil {
			return err
		}
		x.Header().Del("RateLimit")
		x.Header().Del("RateLimit-Policy")
		return problem{Code: domain.Unauthorized}.with("WWW-Authenticate", challenge)
	}
	return a.enterAs(x, project, key)
}

// enterAs lets a request act for a caller whose key is live.
func (a *merchants) enterAs(x *exchange, project domain.Project, key domain.Key) error {
	x.project, x.key = project, key
	if a.cfg.KeyTimes != nil {
		a.cfg.KeyTimes.Use(project.ID, key.ID, a.cfg.Now())
	}
	if project.Disabled {
		return problem{Code: domain.ProjectDisabledCode}
	}
	return nil
}

// recheck answers an error if the caller has lost the right to read. It is called
// before each part of a long answer, which must not outlive that right.
func (a *merchants) recheck(x *exchange) error {
	p, known, err := a.cfg.Views.Project(x.ctx(), x.project.ID)
	switch {
	case err != nil:
		return err
	case known && p.Disabled:
		return problem{Code: domain.ProjectDisabledCode}
	}
	i := slices.IndexFunc(p.Keys, func(k domain.Key) bool { return k.ID == x.key.ID && !k.Revoked })
	switch {
	case !known || i < 0:
		return problem{Code: domain.Unauthorized}.with("WWW-Authenticate", challenge)
	case !p.Keys[i].Has(x.route.scope):
		return problem{Code: domain.ScopeMissing, RequiredScope: x.route.scope}
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
