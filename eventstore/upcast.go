package eventstore

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain/projects"
)

// lift converts the raw JSON data of an event of an older version to the form of the newest. Stored
// bytes never change; data is converted when it is decoded. Most versions changed the rules, or added
// members that may be absent: these need no step here, see domain.Events.
//
// The nodes of a cluster are upgraded one after the other, so a new version of an event is read by
// one release and written by the next: a node has to read what a newer one writes.
func lift(typ string, from, newest int, data jsontext.Value) (jsontext.Value, error) {
	switch {
	case from < 1 || from > newest:
		return nil, fmt.Errorf("event %s has version %d, this program knows 1 to %d: written by a newer program?", typ, from, newest)
	case typ == projects.TypeKeyIssued && from == 1:
		return withWebhooksScope(data)
	}
	return data, nil
}

// withWebhooksScope adds webhooks:write to keys with payments:write: in version 1
// payments:write also allowed managing webhook endpoints.
func withWebhooksScope(data jsontext.Value) (jsontext.Value, error) {
	var key struct {
		KeyID  string   `json:"key_id"`
		Hash   string   `json:"hash"`
		Scopes []string `json:"scopes"`
	}
	if err := json.Unmarshal(data, &key, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("event %s, version 1: %w", projects.TypeKeyIssued, err)
	}
	const before, with = "payments:write", "webhooks:write"
	if i := slices.Index(key.Scopes, before); i >= 0 {
		key.Scopes = slices.Insert(key.Scopes, i+1, with)
	}
	return json.Marshal(key)
}
