package httpapi

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
)

// projectWish is what a body of the administration asks for.
type projectWish struct {
	name     string
	named    bool
	settings domain.Settings
	scopes   []domain.Scope
}

// projectWishOf reads a body that may have the given members. Settings that
// are left out stay as they are in present; a key without scopes gets all.
func projectWishOf(body []byte, present domain.Settings, known ...string) (projectWish, error) {
	wish := projectWish{settings: present, scopes: domain.AllScopes()}
	members, err := decodeObject(body)
	if err != nil {
		return wish, err
	}
	var fields domain.FieldErrors
	wrong := func(name string) { fields = append(fields, &domain.FieldError{Field: name, Code: domain.WrongType}) }
	for _, m := range members {
		if !slices.Contains(known, m.name) {
			fields = append(fields, &domain.FieldError{Field: m.name, Code: domain.UnknownField})
			continue
		}
		if m.value.Kind() == 'n' {
			continue
		}
		ok := true
		switch m.name {
		case "name":
			wish.name, ok = text(m.value)
			wish.named = true
		case "scopes":
			var all []string
			if all, ok = textsOf(m.value); ok {
				var known bool
				if wish.scopes, known = scopesOf(all); !known {
					fields = append(fields, &domain.FieldError{Field: m.name, Code: domain.InvalidValue, Allowed: texts(domain.AllScopes())})
				}
			}
		case "settings":
			var more domain.FieldErrors
			more, ok = settingsOf(m.value, &wish.settings)
			fields = append(fields, more...)
		}
		if !ok {
			wrong(m.name)
		}
	}
	if len(fields) > 0 {
		return wish, inOrder(fields)
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
	for _, m := range membersOf(v) {
		var err error
		ok := true
		switch m.name {
		case "currencies":
			var all []string
			if all, ok = textsOf(m.value); ok {
				s.Currencies = nil
				for _, c := range all {
					s.Currencies = append(s.Currencies, domain.Currency(c))
				}
			}
		case "max_amount":
			amount, err := amountOf(m)
			if err != nil {
				fields = append(fields, err)
			} else {
				s.MaxAmount = amount
			}
		case "lifetime_seconds":
			s.LifetimeSeconds, err = strconv.Atoi(string(m.value))
			ok = err == nil
		case "require_idempotency_key":
			ok = m.value.Kind() == 't' || m.value.Kind() == 'f'
			s.RequireIdempotencyKey = m.value.Kind() == 't'
		default:
			fields = append(fields, &domain.FieldError{Field: m.name, Code: domain.UnknownField})
		}
		if !ok {
			fields = append(fields, &domain.FieldError{Field: m.name, Code: domain.WrongType})
		}
	}
	return fields, true
}
