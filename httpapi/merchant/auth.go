package merchant

import (
	"net/http"
	"strings"

	"payledger/httpapi/conns"
	"payledger/httpapi/edge"
)

// challenge is sent with every 401.
const challenge = `Bearer realm="payments"`

// Authenticate finds the project and the key that a request carries.
func (a *API) Authenticate(x *edge.Exchange) error {
	id, secret := credentials(x.Request.Header)
	c, err := a.SignIn(x.Context(), conns.Visitor(x.Request), id, secret, x.Header())
	x.Project, x.Key = c.Project, c.Key
	return err
}

// credentials reads `Authorization: Bearer <project_id>:<api_key>`, split at the first colon. A
// header that it cannot read gives empty credentials.
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
