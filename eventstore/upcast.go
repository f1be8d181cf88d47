package eventstore

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/domain/projects"
	"payledger/domain/settlement"
)

// Upcaster converts the raw JSON data of one event type from version From to the
// next. Stored bytes never change; data is converted when it is decoded.
type Upcaster struct {
	Type string
	From int
	Lift func(jsontext.Value) (jsontext.Value, error)
}

type version struct {
	typ  string
	from int
}

// upcasters lists every version step of every event type. The nodes of a cluster are upgraded
// one after the other, so a new version of an event is read by one release and written by the
// next: a node has to read what a newer one writes.
func upcasters() []Upcaster {
	return []Upcaster{
		{Type: projects.TypeKeyIssued, From: 1, Lift: withWebhooksScope},
		// Version 3 adds the name of the key, which may be absent.
		{Type: projects.TypeKeyIssued, From: 2, Lift: unchanged},
		// Version 2 adds the route, which may be absent.
		{Type: domain.TypePaymentCreated, From: 1, Lift: unchanged},
		{Type: domain.TypePaymentPaid, From: 1, Lift: unchanged},
		// Version 2 adds amount, currency and deadline. They are in another event of the stream, which an
		// upcaster does not see, so events of version 1 stay without them.
		{Type: domain.TypePaymentRouteAssigned, From: 1, Lift: unchanged},
		{Type: domain.TypePaymentLateFunds, From: 1, Lift: unchanged},
		// Version 2 adds the address of the shop, which may be absent.
		{Type: projects.TypeProjectRegistered, From: 1, Lift: unchanged},
		{Type: projects.TypeProjectChanged, From: 1, Lift: unchanged},
		// Version 3 adds the time zone, which may be absent.
		{Type: projects.TypeProjectRegistered, From: 2, Lift: unchanged},
		{Type: projects.TypeProjectChanged, From: 2, Lift: unchanged},
		// Version 4 adds limits, which may be absent.
		{Type: projects.TypeProjectRegistered, From: 3, Lift: unchanged},
		{Type: projects.TypeProjectChanged, From: 3, Lift: unchanged},
		// Version 5 adds how long details are kept, which may be absent.
		{Type: projects.TypeProjectRegistered, From: 4, Lift: unchanged},
		{Type: projects.TypeProjectChanged, From: 4, Lift: unchanged},
		// Version 2 adds the time, which may be absent.
		{Type: installation.TypeRoutePaused, From: 1, Lift: unchanged},
		{Type: installation.TypeRouteResumed, From: 1, Lift: unchanged},
		// Version 2 says all of the consumer. One of version 1 stays without a password.
		{Type: installation.TypeNATSConsumerCreated, From: 1, Lift: unchanged},
		{Type: installation.TypeNATSConsumerReset, From: 1, Lift: unchanged},
		{Type: installation.TypeNATSConsumerRemoved, From: 1, Lift: unchanged},
		// Version 2 adds the currency of what is settled, which may be absent.
		{Type: settlement.TypeLineResolved, From: 1, Lift: unchanged},
		// Version 2 adds the provider's reason, which may be absent.
		{Type: domain.TypeRefundFailed, From: 1, Lift: unchanged},
		{Type: domain.TypeRefundSucceeded, From: 1, Lift: unchanged},
		{Type: domain.TypeReturnSucceeded, From: 1, Lift: unchanged},
		// Version 2 adds that the return had succeeded, which may be absent.
		{Type: domain.TypeReturnFailed, From: 1, Lift: unchanged},
		// Version 2 adds that the dispute was open before, which may be absent.
		{Type: domain.TypePaymentDisputed, From: 1, Lift: unchanged},
		// Version 2 adds that the dispute was lost before, which may be absent.
		{Type: domain.TypePaymentDisputeWon, From: 1, Lift: unchanged},
		// Version 2 adds the late funds, which may be absent.
		{Type: domain.TypePaymentRefundedAtProvider, From: 1, Lift: unchanged},
		{Type: domain.TypePaymentRefundedAtProvider, From: 2, Lift: unchanged},
		// Version 2 adds the number of unrecorded refusals; version 1 recorded every
		// refusal.
		{Type: domain.TypePaymentSignalRefused, From: 1, Lift: unchanged},
		{Type: domain.TypePaymentSignalRefused, From: 2, Lift: unchanged},
		{Type: domain.TypePaymentSignalRefused, From: 3, Lift: unchanged},
	}
}

// unchanged is for a version that changed the rules and not the data, or added
// members that may be absent. See Codec.DecodeVersion.
func unchanged(data jsontext.Value) (jsontext.Value, error) { return data, nil }

// withWebhooksScope adds webhooks:write to keys with payments:write: in version 1
// payments:write also allowed managing webhook endpoints.
func withWebhooksScope(data jsontext.Value) (jsontext.Value, error) {
	var key struct {
		KeyID  string   `json:"key_id"`
		Hash   string   `json:"hash"`
		Scopes []string `json:"scopes"`
	}
	if err := json.Unmarshal(data, &key, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	const before, with = "payments:write", "webhooks:write"
	if i := slices.Index(key.Scopes, before); i >= 0 {
		key.Scopes = slices.Insert(key.Scopes, i+1, with)
	}
	return json.Marshal(key)
}

// lift converts data from version from to version to, step by step.
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
