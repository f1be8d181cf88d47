package edge

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/wire"
)

func newFieldProblem(f *domain.FieldError) wire.FieldProblem {
	at := pointer(f.Field)
	if slices.Contains(domain.SettingNames(), f.Field) && f.Code != domain.UnknownField {
		at = "#/settings/" + f.Field
	}
	p := wire.FieldProblem{Pointer: at, Code: f.Code, Allowed: f.Allowed, Detail: fieldDetail(f)}
	if f.Code == domain.UnknownField && f.Field == "" {
		p.Pointer = "#/" // of RFC 6901: the member whose name is empty
	}
	if f.Code == domain.UnknownField {
		p.Nearest = nearest(f.Field, f.Allowed)
	}
	if f.Min != 0 {
		p.Minimum = f.Min.String()
	}
	if f.Max != 0 {
		p.Maximum = f.Max.String()
	}
	switch f.Code {
	case domain.PayloadTooLarge:
		p.LimitBytes, p.GotBytes = f.Limit, f.Got
	case domain.TooLong:
		p.LimitCharacter, p.GotCharacters = f.Limit, f.Got
	}
	return p
}

// maxNamed is the longest unknown member name that an answer repeats, in
// characters.
const maxNamed = 64

// pointer is the fragment that points at a member of the body, "#" at the
// body itself. A member that is too long to be a slip of the pen is not
// repeated.
func pointer(field string) string {
	if field == "" || utf8.RuneCountInString(field) > maxNamed {
		return "#"
	}
	escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(field)
	return "#/" + strings.ReplaceAll(url.PathEscape(escaped), "%2F", "/")
}

// firstDetail says what to do about the first of some fields, and how many
// others there are. The name of a member that is not known is not repeated.
func firstDetail(fields []wire.FieldProblem) string {
	if len(fields) == 0 {
		return ""
	}
	first := fields[0]
	s := first.Detail
	if name := strings.TrimPrefix(first.Pointer, "#/"); first.Code != domain.UnknownField && name != "#" {
		s = name + ": " + s
	}
	switch others := len(fields) - 1; others {
	case 0:
		return s
	case 1:
		return s + " See errors for one more."
	default:
		return s + fmt.Sprintf(" See errors for %d more.", others)
	}
}

// fieldDetail says what to do about a field.
func fieldDetail(f *domain.FieldError) string {
	switch f.Code {
	case domain.Required:
		return "This field is required."
	case domain.WrongType:
		if want := typeOf(f.Field); want != "" {
			return "Send " + want + "."
		}
		return "The body must be one JSON object."
	case domain.UnknownField:
		return "There is no such member." + KnownNames("Members", f.Field, f.Allowed)
	case domain.InvalidValue:
		if len(f.Allowed) > 0 {
			return "Send one of: " + strings.Join(f.Allowed, ", ") + "."
		}
		if f.Why != "" {
			return f.Why
		}
		return invalidDetail(f.Field)
	case domain.TargetNotAllowed:
		return "This URL cannot be called: " + f.Why + "."
	case domain.AmountFormat:
		return "Send the amount as digits with at most two after a point, for instance \"1500.00\": no sign, exponent, blank, comma or leading zero."
	case domain.AmountPrecision:
		return "Send at most two digits after the point."
	case domain.AmountTooSmall:
		return fmt.Sprintf("The smallest amount is %s.", f.Min)
	case domain.AmountTooLarge:
		return fmt.Sprintf("The largest amount is %s.", f.Max)
	case domain.CurrencyNotSupported:
		if len(f.Allowed) > 0 {
			return "Send one of: " + strings.Join(f.Allowed, ", ") + ", in upper case."
		}
		return "Only ISO 4217 currencies with two minor digits can be used, in upper case."
	case domain.NoRoute:
		if f.Field == "currency" {
			return "No route collects payments in this currency. Ask the operator which currencies are collected."
		}
		return "No route collects this amount. Ask the operator which amounts are collected."
	case domain.TooLong:
		return fmt.Sprintf("At most %d characters are accepted; this has %d.", f.Limit, f.Got)
	case domain.ControlCharacter:
		return "Control characters, line breaks and tabs included, are not accepted here."
	case domain.PayloadTooLarge:
		return fmt.Sprintf("At most %d bytes are accepted, white space between values not counted; this has %d.", f.Limit, f.Got)
	case domain.RefundAmountNotAccepted:
		return "A refund always returns the whole payment. Leave the amount out."
	}
	return "This value is not accepted."
}

// invalidDetail says what a field takes whose values are too many to list.
func invalidDetail(field string) string {
	detail, known := map[string]string{
		"url":                    "Send a URL of printable ASCII: percent-encode other characters, and write an international host name in its xn-- form.",
		"shop_url":               "Send an https address with a host and without a user name or a password.",
		"time_zone":              "Send the name of a zone of the IANA database, such as Europe/Moscow or UTC.",
		"details_retention_days": fmt.Sprintf("Send a whole number of days, no shorter than lifetime_seconds and at most %d, or 0 to keep details until they are erased.", domain.MaxRetentionDays),
		"overlap_seconds":        fmt.Sprintf("Send a number of seconds from 0 to %d.", int(projects.MaxSecretOverlap.Seconds())),
		"since":                  "Send a time such as 2026-11-20T10:15:30Z.",
	}[field]
	if known {
		return detail
	}
	if slices.Contains(domain.LimitNames(), field) {
		least, greatest := domain.LimitBounds(field)
		return fmt.Sprintf("Send a whole number from %d to %d.", least, greatest)
	}
	return "This value is not accepted."
}

// typeOf names the JSON type a field takes.
func typeOf(field string) string {
	const list, whole = "an array of strings", "a whole number"
	name, known := map[string]string{
		"": "", "amount": "a string or a number", "payload": "a JSON object", "settings": "a JSON object",
		"scopes": list, "currencies": list, "kinds": list, "lifetime_seconds": whole, "overlap_seconds": whole,
		"details_retention_days": "a whole number, or null for none", "require_idempotency_key": "true or false",
	}[field]
	if known {
		return name
	}
	if slices.Contains(domain.LimitNames(), field) {
		return "a whole number, or null for what the server has"
	}
	return "a string"
}
