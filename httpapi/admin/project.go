package admin

import (
	"slices"
	"strconv"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/strictjson"

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
			all, ok := strictjson.Texts(v)
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
		{Name: "currencies", Read: func(v jsontext.Value) domain.FieldErrors {
			all, ok := strictjson.Texts(v)
			s.Currencies = nil
			for _, c := range all {
				s.Currencies = append(s.Currencies, domain.Currency(c))
			}
			return edge.OfType(ok)
		}},
		{Name: "max_amount", Read: func(v jsontext.Value) domain.FieldErrors {
			amount, fault := merchant.AmountOf(v)
			if fault != nil {
				return domain.FieldErrors{fault}
			}
			s.MaxAmount = amount
			return nil
		}},
		{Name: "lifetime_seconds", Read: func(v jsontext.Value) (faults domain.FieldErrors) {
			s.LifetimeSeconds, faults = whole(v)
			return faults
		}},
		{Name: "require_idempotency_key", Read: func(v jsontext.Value) domain.FieldErrors {
			s.RequireIdempotencyKey = v.Kind() == 't'
			return edge.OfType(v.Kind() == 't' || v.Kind() == 'f')
		}},
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
		{Name: "details_retention_days", Read: func(v jsontext.Value) (faults domain.FieldErrors) {
			if s.DetailsRetentionDays = 0; v.Kind() != 'n' {
				s.DetailsRetentionDays, faults = whole(v)
			}
			return faults
		}},
	}
	for _, name := range domain.LimitNames() {
		fields = append(fields, edge.Field{Name: name, Read: func(v jsontext.Value) (faults domain.FieldErrors) {
			own := s.OwnLimit(name)
			if *own = nil; v.Kind() == 'n' {
				return nil
			}
			n, faults := whole(v)
			*own = &n
			return faults
		}})
	}
	for i := range fields {
		fields[i].Null = true
	}
	return fields
}

// whole reads a whole number.
func whole(v jsontext.Value) (int, domain.FieldErrors) {
	n, err := strconv.Atoi(string(v))
	return n, edge.OfType(err == nil)
}
