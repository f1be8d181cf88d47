package edge

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
)

// MaxUnknown is how many unknown members one answer lists.
const MaxUnknown = 16

// InOrder sorts what is wrong with a body's fields by the fields' order in
// the documentation, unknown ones last, and tells each fault of a field once.
func InOrder(errs domain.FieldErrors) domain.FieldErrors {
	order := []string{"", "amount", "currency", "url", "kinds", "description", "payload", "payment_id", "outcome", "overlap_seconds", "since", "name", "settings", "scopes"}
	rank := func(f *domain.FieldError) int {
		if i := slices.Index(order, f.Field); i >= 0 && f.Code != domain.UnknownField {
			return i
		}
		return len(order)
	}
	errs = slices.Clone(errs)
	slices.SortStableFunc(errs, func(a, b *domain.FieldError) int { return cmp.Compare(rank(a), rank(b)) })
	errs = slices.CompactFunc(errs, func(a, b *domain.FieldError) bool { return a.Field == b.Field && a.Code == b.Code })
	if first := slices.IndexFunc(errs, func(f *domain.FieldError) bool { return f.Code == domain.UnknownField }); first >= 0 {
		errs = errs[:min(len(errs), first+MaxUnknown)]
	}
	return errs
}

// Alongside adds what a project does not allow to what nobody may send, except
// for fields that have a fault already: their values were never read.
func Alongside(errs, more domain.FieldErrors) domain.FieldErrors {
	all := slices.Clone(errs)
	for _, f := range more {
		if !errs.Has(f.Field) && !errs.Has("") {
			all = append(all, f)
		}
	}
	return all
}

// OneMember reads a body of one member; null counts as absent. allowed are the
// values to name when there is none or another one; nil: they are not named.
func OneMember(body []byte, name string, required bool, allowed []string, read func(jsontext.Value) domain.Code) error {
	members, err := DecodeObject(body)
	if err != nil {
		return err
	}
	var fields domain.FieldErrors
	refuse := func(field string, code domain.Code) {
		f := &domain.FieldError{Field: field, Code: code}
		if code == domain.Required || code == domain.InvalidValue {
			f.Allowed = allowed
		}
		fields = append(fields, f)
	}
	sent := false
	for _, m := range members {
		switch {
		case m.Name != name:
			fields = append(fields, UnknownMember(m.Name, name))
		case m.Value.Kind() != 'n':
			sent = true
			if code := read(m.Value); code != "" {
				refuse(name, code)
			}
		}
	}
	if required && !sent {
		refuse(name, domain.Required)
	}
	if len(fields) > 0 {
		return InOrder(fields)
	}
	return nil
}

// NoMembers refuses whatever a body says that has nothing to say.
func NoMembers(body []byte) error {
	members, err := DecodeObject(body)
	if err != nil {
		return err
	}
	var fields domain.FieldErrors
	for _, m := range members {
		fields = append(fields, UnknownMember(m.Name))
	}
	if len(fields) > 0 {
		return InOrder(fields)
	}
	return nil
}
