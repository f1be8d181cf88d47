package edge

import (
	"cmp"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/httpapi/wire"
)

// MaxUnknown is how many unknown members one answer lists.
const MaxUnknown = 16

// InOrder sorts the faults of a body's fields by the fields' order in the documentation, others that
// are known behind them and unknown ones last, and removes duplicates.
func InOrder(errs domain.FieldErrors) domain.FieldErrors {
	order := []string{"", "amount", "currency", "url", "kinds", "description", "payload", "payment_id", "outcome", "overlap_seconds", "since", "name", "settings", "scopes"}
	rank := func(f *domain.FieldError) int {
		i := slices.Index(order, f.Field)
		switch {
		case f.Code == domain.UnknownField:
			return len(order) + 1
		case i < 0:
			return len(order)
		}
		return i
	}
	errs = slices.Clone(errs)
	slices.SortStableFunc(errs, func(a, b *domain.FieldError) int { return cmp.Compare(rank(a), rank(b)) })
	errs = slices.CompactFunc(errs, func(a, b *domain.FieldError) bool { return a.Field == b.Field && a.Code == b.Code })
	if first := slices.IndexFunc(errs, func(f *domain.FieldError) bool { return f.Code == domain.UnknownField }); first >= 0 {
		errs = errs[:min(len(errs), first+MaxUnknown)]
	}
	return errs
}

// Merge adds the faults of a project's limits to those of the format, except for fields that have a
// fault already: their values were never read.
func Merge(errs, more domain.FieldErrors) domain.FieldErrors {
	all := slices.Clone(errs)
	for _, f := range more {
		if !errs.Has(f.Field) && !errs.Has("") {
			all = append(all, f)
		}
	}
	return all
}

// Field is a member that an object may have.
type Field struct {
	Name     string
	Required bool     // null is not enough
	Null     bool     // null is a value of it; else null counts as absent
	Allowed  []string // values to name where it is missing or has another one; nil: they are not named

	// Read takes a valid value and answers what is wrong with it. Faults without a
	// field are the member's own.
	Read func(jsontext.Value) domain.FieldErrors
}

// ReadObject reads a body that is an object of these fields. The error is all that is
// wrong with it.
func ReadObject(body []byte, fields ...Field) error {
	faults, err := Faults(body, fields...)
	if err == nil && len(faults) > 0 {
		err = InOrder(faults)
	}
	return err
}

// Faults reads a body that is an object of these fields and answers what is wrong with them. The error is
// about the body as a whole.
func Faults(body []byte, fields ...Field) (faults domain.FieldErrors, err error) {
	members, err := DecodeObject(body)
	switch {
	case errors.As(err, &faults):
		return faults, nil
	case err != nil:
		return nil, err
	}
	return ReadFields(members, fields...), nil
}

// ReadFields has each member read as its field and answers all faults.
func ReadFields(members []wire.Member, fields ...Field) (faults domain.FieldErrors) {
	for _, m := range members {
		at := slices.IndexFunc(fields, func(f Field) bool { return f.Name == m.Name })
		switch {
		case at < 0:
			var known []string
			for _, f := range fields {
				known = append(known, f.Name)
			}
			faults = append(faults, &domain.FieldError{Field: m.Name, Code: domain.UnknownField, Allowed: known})
		case fields[at].Null || m.Value.Kind() != 'n':
			for _, fault := range fields[at].Read(m.Value) {
				faults = append(faults, fields[at].own(fault))
			}
		}
	}
	for _, f := range fields {
		is := func(m wire.Member) bool { return m.Name == f.Name && m.Value.Kind() != 'n' }
		if f.Required && !slices.ContainsFunc(members, is) {
			faults = append(faults, f.own(&domain.FieldError{Code: domain.Required}))
		}
	}
	return faults
}

// own makes a fault without a field the field's.
func (f *Field) own(fault *domain.FieldError) *domain.FieldError {
	if fault.Field != "" || fault.Code == domain.UnknownField {
		return fault
	}
	fault = fault.InField(f.Name)
	if fault.Code == domain.Required || fault.Code == domain.InvalidValue {
		fault.Allowed = f.Allowed
	}
	return fault
}

// Object reads a value as an object of these fields.
func Object(fields ...Field) func(jsontext.Value) domain.FieldErrors {
	return func(v jsontext.Value) domain.FieldErrors {
		members, err := wire.Members(v)
		if err != nil || v.Kind() != '{' {
			return Fault(domain.WrongType)
		}
		return ReadFields(members, fields...)
	}
}

// Text reads a value as a string; set answers what is wrong with it.
func Text(set func(string) domain.FieldErrors) func(jsontext.Value) domain.FieldErrors {
	return func(v jsontext.Value) domain.FieldErrors {
		s, ok := wire.Text(v)
		if !ok {
			return Fault(domain.WrongType)
		}
		return set(s)
	}
}

// TextTo reads a value as a string.
func TextTo(to **string) func(jsontext.Value) domain.FieldErrors {
	return Text(func(s string) domain.FieldErrors {
		*to = &s
		return nil
	})
}

// Fault is the only fault of a field.
func Fault(code domain.Code) domain.FieldErrors { return domain.FieldErrors{{Code: code}} }

// OfType is the fault of a value that is of another JSON type.
func OfType(ok bool) domain.FieldErrors {
	if ok {
		return nil
	}
	return Fault(domain.WrongType)
}
