package edge

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"payledger/domain"
	"payledger/httpapi/wire"
)

// Query is a parsed query string in which every parameter is known and there
// at most once.
type Query map[string]string

// Has reports whether the parameter is there.
func (q Query) Has(name string) bool { _, ok := q[name]; return ok }

// BadParameter is the problem of one query parameter.
func BadParameter(name, detail string) error {
	return wire.Problem{Code: domain.InvalidParameter, Parameter: name, Detail: detail}
}

// Values is the query string, whose parameters are still to be checked.
func (x *Exchange) Values() (url.Values, error) {
	values, err := url.ParseQuery(x.Request.URL.RawQuery)
	if err != nil {
		return nil, BadParameter("", "The query string cannot be read. Percent-encode values and separate parameters with &.")
	}
	return values, nil
}

// Query reads a query string of the known parameters.
func (x *Exchange) Query(known ...string) (Query, error) {
	values, err := x.Values()
	if err != nil {
		return nil, err
	}
	return ParseQuery(values, known...)
}

// ParseQuery refuses parameters that are not known or are there twice.
func ParseQuery(values url.Values, known ...string) (Query, error) {
	q := make(Query, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch all := values[name]; {
		case !slices.Contains(known, name):
			near := nearest(name, known)
			if !utf8.ValidString(name) || utf8.RuneCountInString(name) > maxNamed {
				name = ""
			}
			return nil, wire.Problem{
				Code: domain.InvalidParameter, Parameter: name, Nearest: near, Allowed: known,
				Detail: "There is no such query parameter." + KnownNames("Parameters", name, known),
			}
		case len(all) > 1:
			return nil, BadParameter(name, "This query parameter may be there only once.")
		case !utf8.ValidString(all[0]):
			return nil, BadParameter(name, "This query parameter is not valid UTF-8.")
		default:
			q[name] = all[0]
		}
	}
	return q, nil
}

// The bounds of a page, and its size when the request does not say.
const (
	MaxLimit     = 100
	defaultLimit = 20
)

// Limit is how many rows a page is to have.
func (q Query) Limit() (int, error) {
	if !q.Has("limit") {
		return defaultLimit, nil
	}
	s := q["limit"]
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > MaxLimit || strconv.Itoa(n) != s {
		return 0, BadParameter("limit", "Send a whole number from 1 to 100.")
	}
	return n, nil
}

// OneOf reads a parameter that takes one of a few values.
func OneOf[S ~string](q Query, name string, allowed []S) (S, error) {
	s := S(q[name])
	if q.Has(name) && !slices.Contains(allowed, s) {
		return "", BadParameter(name, "Send one of: "+strings.Join(Texts(allowed), ", ")+".")
	}
	return s, nil
}

// Number reads a parameter that takes a whole number; 0 when it is not there.
// hint says what to send instead of another value.
func (q Query) Number(name, hint string) (uint64, error) {
	if !q.Has(name) {
		return 0, nil
	}
	n, err := strconv.ParseUint(q[name], 10, 63)
	if err != nil {
		return 0, BadParameter(name, hint)
	}
	return n, nil
}

// Flag reads a parameter that takes true or false; false when it is not there.
func (q Query) Flag(name string) (bool, error) {
	if q.Has(name) && q[name] != "true" && q[name] != "false" {
		return false, BadParameter(name, "Send true or false.")
	}
	return q[name] == "true", nil
}

// Amount reads a parameter that takes an amount; 0 when it is not there.
func (q Query) Amount(name string) (domain.Amount, error) {
	if !q.Has(name) {
		return 0, nil
	}
	a, err := domain.ParseAmount(q[name])
	if err != nil {
		return 0, BadParameter(name, "Send an amount such as 1500 or 1500.00, from 0.01 to 999999999.99.")
	}
	return a, nil
}

// Instant reads a parameter that takes a time; 0 when it is not there.
func (q Query) Instant(name string) (domain.Instant, error) {
	if !q.Has(name) {
		return 0, nil
	}
	var i domain.Instant
	if err := i.UnmarshalText([]byte(q[name])); err != nil || i < 0 {
		return 0, BadParameter(name, "Send a time such as 2026-11-20T10:15:30Z; in an offset write + as %2B.")
	}
	// Objects are created at whole milliseconds, and both bounds mean "from".
	if t, err := time.Parse(time.RFC3339Nano, q[name]); err == nil && i.Time().Before(t) {
		i++
	}
	return max(i, 1), nil // nothing is from before the epoch's first millisecond
}

// Texts are the names of some values, as a problem lists them.
func Texts[S ~string](all []S) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = string(s)
	}
	return out
}
