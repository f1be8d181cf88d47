package admin

import (
	"slices"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// projectRequest is what a body of the administration asks for.
type projectRequest struct {
	name     string
	named    bool
	settings domain.Settings
	scopes   []projects.Scope
}

// projectRequestOf reads a body that may have the given members. Settings that
// are left out stay as they are in present; a key without scopes gets all.
func projectRequestOf(body []byte, present domain.Settings, known ...string) (projectRequest, error) {
	req := projectRequest{settings: present, scopes: projects.AllScopes()}
	fields := []edge.Field{
		{Name: "name", Read: edge.Text(func(s string) domain.FieldErrors {
			req.name, req.named = s, true
			return nil
		})},
		{Name: "settings", Read: edge.Object(settingsOf(&req.settings)...)},
		{Name: "scopes", Allowed: edge.Texts(projects.AllScopes()), Read: func(v jsontext.Value) domain.FieldErrors {
			all, ok := wire.Texts(v)
			if !ok {
				return edge.Fault(domain.WrongType)
			}
			if req.scopes, ok = merchant.ScopesOf(all); !ok {
				return edge.Fault(domain.InvalidValue)
			}
			return nil
		}},
	}
	err := edge.ReadObject(body, slices.DeleteFunc(fields, func(f edge.Field) bool { return !slices.Contains(known, f.Name) })...)
	return req, err
}

// settingsOf reads settings into s, in the order of domain.SettingNames.
func settingsOf(s *domain.Settings) []edge.Field {
	fields := []edge.Field{
		{Name: "currencies", Read: into(&s.Currencies, false)},
		{Name: "max_amount", Read: func(v jsontext.Value) domain.FieldErrors {
			amount, fault := merchant.AmountOf(v)
			if fault != nil {
				return domain.FieldErrors{fault}
			}
			s.MaxAmount = amount
			return nil
		}},
		{Name: "lifetime_seconds", Read: into(&s.LifetimeSeconds, false)},
		{Name: "require_idempotency_key", Read: into(&s.RequireIdempotencyKey, false)},
		{Name: "shop_url", Read: edge.Text(func(url string) domain.FieldErrors {
			s.ShopURL = url
			if why := edge.URLFault(url); why != "" {
				return domain.FieldErrors{{Code: domain.InvalidValue, Why: why}}
			}
			return nil
		})},
		{Name: "time_zone", Read: edge.Text(func(name string) domain.FieldErrors {
			s.TimeZone = name
			if _, err := merchant.LoadCalendar(name); err != nil {
				return edge.Fault(domain.InvalidValue)
			}
			return nil
		})},
		{Name: "details_retention_days", Read: into(&s.DetailsRetentionDays, true)},
	}
	for _, name := range domain.LimitNames() {
		fields = append(fields, edge.Field{Name: name, Read: into(s.OwnLimit(name), true)})
	}
	for i := range fields {
		fields[i].Null = true
	}
	return fields
}

// into decodes a value into to, null where it may be as nothing. What to has had may be another's.
func into[T any](to *T, null bool) func(jsontext.Value) domain.FieldErrors {
	return func(v jsontext.Value) domain.FieldErrors {
		*to = *new(T)
		return edge.OfType((null || v.Kind() != 'n') && json.Unmarshal(v, to) == nil)
	}
}
