package routesfile

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/notifier/connector"
	"payledger/notifier/connector/client"
)

// declare reads the object of connectors.
func (r *reading) declare(v value) {
	if v.raw.Kind() != '{' {
		r.refuse(v, "want an object from routes to their connectors")
		return
	}
	r.declared = make(map[string]value)
	for _, m := range v.open() {
		r.declared[m.name] = m.value
		switch {
		case !domain.ValidRoute(m.name):
			r.refuse(m.value, "the route's name: want 1 to 32 of a-z, 0-9, - and _")
		case m.raw.Kind() != '{':
			r.refuse(m.value, `want an object with the member "type"`)
		default:
			r.connector(m)
		}
	}
}

// connector reads one connector of the file.
func (r *reading) connector(m member) {
	at := m.find("type")
	var name string
	if err := json.Unmarshal(at.raw, &name); err != nil {
		r.refuse(at, "want one of %s", r.typeNames())
		return
	}
	settings := []byte{'{'}
	var fees settlement.Bearer
	var since domain.Instant
	for _, s := range m.open() {
		if s.name == "type" {
			continue
		}
		if s.name == "fees_paid_by" {
			if err := json.Unmarshal(s.raw, &fees); err != nil || !fees.Valid() {
				r.refuse(s.value, "want %q or %q", settlement.ByOperator, settlement.ByMerchant)
			}
			continue
		}
		if s.name == "settled_since" {
			since = r.day(s.value)
			continue
		}
		if name == sandboxType {
			r.refuse(s.value, "unknown member: the sandbox has no settings")
		}
		if len(settings) > 1 {
			settings = append(settings, ',')
		}
		settings, _ = jsontext.AppendQuote(settings, s.name) // it was read from JSON, so it is valid
		settings = append(append(settings, ':'), s.raw...)
	}
	switch {
	case name != sandboxType && m.name == domain.SandboxRoute:
		r.refuse(at, "the route %q is the simulated provider's: want the type %q, or another name for the route", m.name, sandboxType)
	case name != sandboxType:
		r.open(m.name, name, m.value, append(settings, '}'))
	case !r.source.Sandbox:
		r.refuse(at, "the type %q is the simulated provider: it needs --sandbox", name)
	default:
		r.connectors[m.name] = connector.Opened{Type: name}
	}
	if c, opened := r.connectors[m.name]; opened {
		c.FeesPaidBy, c.SettledSince = fees, since
		r.connectors[m.name] = c
	}
}

// day reads a day, which begins in UTC, or a time.
func (r *reading) day(v value) (at domain.Instant) {
	var text string
	err := json.Unmarshal(v.raw, &text)
	if len(text) == len("2006-01-02") {
		text += "T00:00:00Z"
	}
	if err != nil || at.UnmarshalText([]byte(text)) != nil || at <= 0 {
		r.refuse(v, "want a day such as %q, or a time such as %q", "2026-11-20", "2026-11-20T00:00:00+03:00")
	}
	return at
}

// open makes a route's connector, once.
func (r *reading) open(route, name string, at value, settings []byte) {
	if _, done := r.connectors[route]; done {
		return
	}
	i := slices.IndexFunc(r.source.Types, func(t connector.Type) bool { return t.Name == name })
	if i < 0 {
		r.refuse(at.find("type"), "the type %q is not known: want one of %s", name, r.typeNames())
		return
	}
	t := r.source.Types[i]
	env := r.env
	env.HTTP = client.New(client.Config{AllowPrivate: t.Private || r.source.AllowPrivate})
	env.Secret = func(name, file, variable string) (string, error) { return r.secret(at, name, file, variable) }
	c, err := t.Open(env, route, bytes.Clone(settings))
	wrong, ok := errors.AsType[*connector.SettingError](err)
	switch {
	case ok:
		r.refuse(at.find(wrong.Field), "%s", wrong.Detail)
	case err != nil:
		r.refuse(at, "%s", strings.TrimSpace(err.Error()))
	default:
		r.connectors[route] = connector.Opened{Type: name, Connector: c}
	}
}
