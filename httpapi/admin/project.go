package admin

import (
	"slices"
	"strconv"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/calendar"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"

	"github.com/go-json-experiment/json/jsontext"
)

// projectWish is what a body of the administration asks for.
type projectWish struct {
	name     string
	named    bool
	settings domain.Settings
	scopes   []projects.Scope
}

// projectWishOf reads a body that may have the given members. Settings that
// are left out stay as they are in present; a key without scopes gets all.
func projectWishOf(body []byte, present domain.Settings, known ...string) (projectWish, error) {
	wish := projectWish{settings: present, scopes: projects.AllScopes()}
	members, err := edge.DecodeObject(body)
	if err != nil {
		return wish, err
	}
	var fields domain.FieldErrors
	wrong := func(name string) { fields = append(fields, &domain.FieldError{Field: name, Code: domain.WrongType}) }
	for _, m := range members {
		if !slices.Contains(known, m.Name) {
			fields = append(fields, edge.UnknownMember(m.Name, known...))
			continue
		}
		if m.Value.Kind() == 'n' {
			continue
		}
		ok := true
		switch m.Name {
		case "name":
			wish.name, ok = edge.Text(m.Value)
			wish.named = true
		case "scopes":
			var all []string
			if all, ok = edge.TextsOf(m.Value); ok {
				var known bool
				if wish.scopes, known = merchant.ScopesOf(all); !known {
					fields = append(fields, &domain.FieldError{Field: m.Name, Code: domain.InvalidValue, Allowed: edge.Texts(projects.AllScopes())})
				}
			}
		case "settings":
			var more domain.FieldErrors
			more, ok = settingsOf(m.Value, &wish.settings)
			fields = append(fields, more...)
		}
		if !ok {
			wrong(m.Name)
		}
	}
	if len(fields) > 0 {
		return wish, edge.InOrder(fields)
	}
	return wish, nil
}

// settingsOf reads the members of settings that are there into s. It reports
// false when v is no object.
func settingsOf(v jsontext.Value, s *domain.Settings) (domain.FieldErrors, bool) {
	if v.Kind() != '{' {
		return nil, false
	}
	var fields domain.FieldErrors
	members, err := edge.MembersOf(v)
	if err != nil {
		return nil, false //nolint:nilerr // the whole body was found valid before
	}
	for _, m := range members {
		var err error
		ok := true
		switch m.Name {
		case "currencies":
			var all []string
			if all, ok = edge.TextsOf(m.Value); ok {
				s.Currencies = nil
				for _, c := range all {
					s.Currencies = append(s.Currencies, domain.Currency(c))
				}
			}
		case "max_amount":
			amount, err := merchant.AmountOf(m)
			if err != nil {
				fields = append(fields, err)
			} else {
				s.MaxAmount = amount
			}
		case "lifetime_seconds":
			s.LifetimeSeconds, err = strconv.Atoi(string(m.Value))
			ok = err == nil
		case "require_idempotency_key":
			ok = m.Value.Kind() == 't' || m.Value.Kind() == 'f'
			s.RequireIdempotencyKey = m.Value.Kind() == 't'
		case "shop_url":
			s.ShopURL, ok = edge.Text(m.Value)
			if why := edge.URLFault(s.ShopURL); ok && why != "" {
				fields = append(fields, &domain.FieldError{Field: m.Name, Code: domain.InvalidValue, Why: why})
			}
		case "time_zone":
			if s.TimeZone, ok = edge.Text(m.Value); ok {
				if _, err := calendar.Load(s.TimeZone); err != nil {
					fields = append(fields, &domain.FieldError{Field: m.Name, Code: domain.InvalidValue})
				}
			}
		default:
			own := s.OwnLimit(m.Name)
			if own == nil {
				fields = append(fields, edge.UnknownMember(m.Name, domain.SettingNames()...))
				continue
			}
			*own = nil
			if m.Value.Kind() != 'n' {
				var n int
				n, err = strconv.Atoi(string(m.Value))
				*own, ok = &n, err == nil
			}
		}
		if !ok {
			fields = append(fields, &domain.FieldError{Field: m.Name, Code: domain.WrongType})
		}
	}
	return fields, true
}
