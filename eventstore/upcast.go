package eventstore

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Upcaster lifts the data of one event type from one version to the next, raw
// JSON to raw JSON. Stored bytes stay as they are; only what is decoded from
// them changes.
type Upcaster struct {
	Type string
	From int
	Lift func(jsontext.Value) (jsontext.Value, error)
}

type version struct {
	typ  string
	from int
}

// upcasters lists every change of shape there has been. No event has changed
// its shape yet.
func upcasters() []Upcaster { return nil }

// lift takes data from version from to version to, step by step.
func (c *Codec) lift(typ string, from, to int, data jsontext.Value) (jsontext.Value, error) {
	if from < 1 || from > to {
		return nil, fmt.Errorf("event %s has version %d, this program knows 1 to %d: written by a newer program?", typ, from, to)
	}
	for ; from < to; from++ {
		u, ok := c.upcast[version{typ, from}]
		if !ok {
			return nil, fmt.Errorf("event %s: no upcaster from version %d", typ, from)
		}
		lifted, err := u.Lift(data)
		if err != nil {
			return nil, fmt.Errorf("event %s: lifting version %d: %w", typ, from, err)
		}
		data = lifted
	}
	return data, nil
}
