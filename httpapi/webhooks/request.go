package webhooks

import (
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// Request is what an endpoint is to be. What is nil was left out: a new
// endpoint gets domain.FinalKinds, another one stays as it is.
type Request struct {
	projects.EditEndpoint
	Random *[10]byte // of a new endpoint's id: with the same ones the request counts once; nil: new ones

	faults domain.FieldErrors // of the body it was read from
}

// requestOf reads a body. What is null counts as absent. Faults of single
// members are found by check, all at once.
func requestOf(x *edge.Exchange) (req Request, err error) {
	req.faults, err = edge.Faults(x.Body,
		edge.Field{Name: "url", Read: edge.TextTo(&req.URL)},
		edge.Field{Name: "kinds", Allowed: edge.Texts(domain.Kinds()), Read: func(v jsontext.Value) domain.FieldErrors {
			all, ok := wire.Texts(v)
			if ok && len(all) == 0 {
				return edge.Fault(domain.InvalidValue)
			}
			for _, k := range all {
				req.Kinds = append(req.Kinds, domain.Kind(k))
			}
			return edge.OfType(ok)
		}},
		edge.Field{Name: "description", Read: edge.TextTo(&req.Description)})
	return req, err
}

// nothingOf reads a body, where the route takes one, that must be empty.
func nothingOf(x *edge.Exchange) (none struct{}, err error) {
	if x.Route.Body {
		err = edge.ReadObject(x.Body)
	}
	return none, err
}

// eventOf reads the event of a delivery from the path, and an empty body.
func eventOf(x *edge.Exchange) (string, error) {
	_, err := nothingOf(x)
	return x.Vars["event_id"], err
}

// rotationOf reads how long the previous secret stays valid.
func rotationOf(x *edge.Exchange) (Rotation, error) {
	r := Rotation{Overlap: projects.DefaultSecretOverlap}
	err := edge.ReadObject(x.Body, edge.Field{Name: "overlap_seconds", Read: func(v jsontext.Value) domain.FieldErrors {
		// A whole number is one in any spelling: 60, 60.0, 6e1.
		n, err := strconv.ParseFloat(string(v), 64)
		switch {
		case v.Kind() != '0' || (err == nil && n != math.Trunc(n)):
			return edge.Fault(domain.WrongType)
		case err != nil || n < 0 || n > projects.MaxSecretOverlap.Seconds():
			return edge.Fault(domain.InvalidValue)
		}
		r.Overlap = time.Duration(n) * time.Second
		return nil
	}})
	return r, err
}

// sinceOf reads from when on a merchant misses notifications.
func sinceOf(x *edge.Exchange) (since domain.Instant, err error) {
	err = edge.ReadObject(x.Body, edge.Field{Name: "since", Required: true, Read: edge.Text(func(s string) domain.FieldErrors {
		if err := since.UnmarshalText([]byte(s)); err != nil {
			return edge.Fault(domain.InvalidValue)
		}
		return nil
	})})
	return since, err
}
