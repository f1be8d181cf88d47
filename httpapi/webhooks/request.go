package webhooks

import (
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/edge"
)

// Request is what an endpoint is to be. What is nil was left out: a new
// endpoint gets domain.FinalKinds, another one stays as it is.
type Request struct {
	projects.EditEndpoint

	faults domain.FieldErrors // of the body it was read from
}

// requestOf reads a body. What is null counts as absent. Faults of single
// members are found by check, all at once.
func requestOf(x *edge.Exchange) (req Request, err error) {
	members, err := edge.DecodeObject(x.Body)
	if err != nil {
		return req, err
	}
	for _, m := range members {
		known := m.Name == "url" || m.Name == "kinds" || m.Name == "description"
		fault := &domain.FieldError{Field: m.Name, Code: domain.WrongType}
		ok := true
		switch {
		case !known:
			ok, fault = false, edge.UnknownMember(m.Name, "url", "kinds", "description")
		case m.Value.Kind() == 'n':
		case m.Name == "kinds":
			var all []string
			if all, ok = edge.TextsOf(m.Value); ok && len(all) == 0 {
				ok, fault.Code, fault.Allowed = false, domain.InvalidValue, edge.Texts(domain.Kinds())
			}
			for _, k := range all {
				req.Kinds = append(req.Kinds, domain.Kind(k))
			}
		default:
			var s string
			if s, ok = edge.Text(m.Value); !ok {
				break
			}
			if m.Name == "url" {
				req.URL = &s
			} else {
				req.Description = &s
			}
		}
		if !ok {
			req.faults = append(req.faults, fault)
		}
	}
	return req, nil
}

// nothingOf reads a body, where the route takes one, that must be empty.
func nothingOf(x *edge.Exchange) (none struct{}, err error) {
	if x.Route.Body {
		err = edge.NoMembers(x.Body)
	}
	return none, err
}

// eventOf reads the event of a delivery from the path, and an empty body.
func eventOf(x *edge.Exchange) (string, error) {
	_, err := nothingOf(x)
	return x.Vars["event_id"], err
}

// overlapOf reads how long the previous secret stays valid.
func overlapOf(x *edge.Exchange) (time.Duration, error) {
	overlap := projects.DefaultSecretOverlap
	err := edge.OneMember(x.Body, "overlap_seconds", false, nil, func(v jsontext.Value) domain.Code {
		// A whole number is one in any spelling: 60, 60.0, 6e1.
		n, err := strconv.ParseFloat(string(v), 64)
		switch {
		case v.Kind() != '0' || (err == nil && n != math.Trunc(n)):
			return domain.WrongType
		case err != nil || n < 0 || n > projects.MaxSecretOverlap.Seconds():
			return domain.InvalidValue
		}
		overlap = time.Duration(n) * time.Second
		return ""
	})
	return overlap, err
}

// sinceOf reads from when on a merchant misses notifications.
func sinceOf(x *edge.Exchange) (since domain.Instant, err error) {
	err = edge.OneMember(x.Body, "since", true, nil, func(v jsontext.Value) domain.Code {
		s, ok := edge.Text(v)
		if !ok {
			return domain.WrongType
		}
		if err := since.UnmarshalText([]byte(s)); err != nil || since <= 0 {
			return domain.InvalidValue
		}
		return ""
	})
	return since, err
}
