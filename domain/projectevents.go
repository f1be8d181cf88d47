package domain

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ProjectRegistered is the first event of a project's stream.
type ProjectRegistered struct {
	Name     string   `json:"name"` // shown to customers as the merchant
	Settings Settings `json:"settings"`
}

func (ProjectRegistered) Type() string { return TypeProjectRegistered }

func (e ProjectRegistered) evolveProject(p Project) Project {
	p.Name, p.Settings = e.Name, e.Settings
	return p
}

func (e ProjectRegistered) origin(p Project, _ Instant) (ProjectCommand, error) {
	if p.Name != "" {
		return nil, errors.New("the project was registered before")
	}
	return RegisterProject(e), nil
}

// ProjectChanged replaces a project's name and settings.
type ProjectChanged struct {
	Name     string   `json:"name"`
	Settings Settings `json:"settings"`
}

func (ProjectChanged) Type() string { return TypeProjectChanged }

func (e ProjectChanged) evolveProject(p Project) Project {
	p.Name, p.Settings = e.Name, e.Settings
	return p
}

func (e ProjectChanged) origin(Project, Instant) (ProjectCommand, error) {
	return ChangeProject(e), nil
}

// ProjectDisabled disables a project's API. Its payments continue.
type ProjectDisabled struct{}

func (ProjectDisabled) Type() string { return TypeProjectDisabled }

func (e ProjectDisabled) evolveProject(p Project) Project {
	p.Disabled = true
	return p
}

func (e ProjectDisabled) origin(Project, Instant) (ProjectCommand, error) {
	return DisableProject(e), nil
}

// KeyIssued adds an API key. Only the key's SHA-256 is ever recorded.
type KeyIssued struct {
	KeyID  string  `json:"key_id"`
	Hash   Digest  `json:"hash"`
	Scopes []Scope `json:"scopes"`
	Name   string  `json:"name,omitempty"`
}

func (KeyIssued) Type() string { return TypeKeyIssued }

func (e KeyIssued) evolveProject(p Project) Project {
	p.Keys = append(slices.Clip(p.Keys), Key{ID: e.KeyID, Hash: e.Hash, Scopes: e.Scopes, Name: e.Name})
	return p
}

func (e KeyIssued) origin(Project, Instant) (ProjectCommand, error) { return IssueKey(e), nil }

// KeyRevoked revokes an API key.
type KeyRevoked struct {
	KeyID string `json:"key_id"`
}

func (KeyRevoked) Type() string { return TypeKeyRevoked }

func (e KeyRevoked) evolveProject(p Project) Project {
	p.Keys = slices.Clone(p.Keys)
	for i := range p.Keys {
		if p.Keys[i].ID == e.KeyID {
			p.Keys[i].Revoked = true
		}
	}
	return p
}

func (e KeyRevoked) origin(Project, Instant) (ProjectCommand, error) { return RevokeKey(e), nil }

// WebhookEndpointAdded adds an endpoint. It is notified of the project's events
// from then on. Its first secret has generation 1.
type WebhookEndpointAdded struct {
	EndpointID  string  `json:"endpoint_id"`
	CreatedAt   Instant `json:"created_at"`
	URL         string  `json:"url"`
	Kinds       []Kind  `json:"kinds"`
	Description *string `json:"description"`
	KeyVersion  int     `json:"key_version"`
}

func (WebhookEndpointAdded) Type() string { return TypeWebhookEndpointAdded }

func (e WebhookEndpointAdded) evolveProject(p Project) Project {
	p.Endpoints = append(slices.Clip(p.Endpoints), Endpoint{
		ID: e.EndpointID, URL: e.URL, Kinds: e.Kinds, Description: e.Description, CreatedAt: e.CreatedAt,
		Secret: Secret{Generation: 1, KeyVersion: e.KeyVersion},
	})
	return p
}

func (e WebhookEndpointAdded) origin(_ Project, at Instant) (ProjectCommand, error) {
	return AddEndpoint{
		At: at, EndpointID: e.EndpointID, URL: e.URL, Kinds: e.Kinds, Description: e.Description, KeyVersion: e.KeyVersion,
	}, happened(e.CreatedAt, at)
}

// WebhookEndpointChanged replaces all members that an endpoint's owner can set.
type WebhookEndpointChanged struct {
	EndpointID  string  `json:"endpoint_id"`
	URL         string  `json:"url"`
	Kinds       []Kind  `json:"kinds"`
	Description *string `json:"description"`
}

func (WebhookEndpointChanged) Type() string { return TypeWebhookEndpointChanged }

func (e WebhookEndpointChanged) evolveProject(p Project) Project {
	return p.withEndpoint(e.EndpointID, func(at *Endpoint) {
		at.URL, at.Kinds, at.Description = e.URL, e.Kinds, e.Description
	})
}

func (e WebhookEndpointChanged) origin(Project, Instant) (ProjectCommand, error) {
	return ChangeEndpoint(e), nil
}

// WebhookEndpointDisabled stops notifications to an endpoint.
type WebhookEndpointDisabled struct {
	At         Instant        `json:"at"`
	EndpointID string         `json:"endpoint_id"`
	Reason     DisabledReason `json:"reason"`
}

func (WebhookEndpointDisabled) Type() string { return TypeWebhookEndpointDisabled }

func (e WebhookEndpointDisabled) evolveProject(p Project) Project {
	return p.withEndpoint(e.EndpointID, func(at *Endpoint) { at.Disabled, at.DisabledAt = e.Reason, e.At })
}

func (e WebhookEndpointDisabled) origin(_ Project, at Instant) (ProjectCommand, error) {
	return DisableEndpoint(e), happened(e.At, at)
}

// WebhookEndpointEnabled lets an endpoint be notified again.
type WebhookEndpointEnabled struct {
	EndpointID string `json:"endpoint_id"`
}

func (WebhookEndpointEnabled) Type() string { return TypeWebhookEndpointEnabled }

func (e WebhookEndpointEnabled) evolveProject(p Project) Project {
	return p.withEndpoint(e.EndpointID, func(at *Endpoint) { at.Disabled, at.DisabledAt = "", 0 })
}

func (e WebhookEndpointEnabled) origin(Project, Instant) (ProjectCommand, error) {
	return EnableEndpoint(e), nil
}

// WebhookEndpointRemoved removes an endpoint.
type WebhookEndpointRemoved struct {
	EndpointID string `json:"endpoint_id"`
}

func (WebhookEndpointRemoved) Type() string { return TypeWebhookEndpointRemoved }

func (e WebhookEndpointRemoved) evolveProject(p Project) Project {
	p.Endpoints = slices.DeleteFunc(slices.Clone(p.Endpoints), func(at Endpoint) bool { return at.ID == e.EndpointID })
	return p
}

func (e WebhookEndpointRemoved) origin(Project, Instant) (ProjectCommand, error) {
	return RemoveEndpoint(e), nil
}

// WebhookSecretRotated gives an endpoint the secret of the next generation. The
// previous secret stays valid until PreviousUntil.
type WebhookSecretRotated struct {
	EndpointID    string  `json:"endpoint_id"`
	Generation    int     `json:"generation"`
	KeyVersion    int     `json:"key_version"`
	PreviousUntil Instant `json:"previous_until"`
}

func (WebhookSecretRotated) Type() string { return TypeWebhookSecretRotated }

func (e WebhookSecretRotated) evolveProject(p Project) Project {
	return p.withEndpoint(e.EndpointID, func(at *Endpoint) {
		at.Previous = slices.Insert(slices.Clone(at.Previous), 0, OldSecret{Secret: at.Secret, Until: e.PreviousUntil})
		for len(at.Previous) > MaxOldSecrets {
			first := len(at.Previous) - 1 // the oldest of those that end at the same time
			for i := first; i >= 0; i-- {
				if at.Previous[i].Until < at.Previous[first].Until {
					first = i
				}
			}
			at.Previous = slices.Delete(at.Previous, first, first+1)
		}
		at.Secret = Secret{Generation: e.Generation, KeyVersion: e.KeyVersion}
	})
}

func (e WebhookSecretRotated) origin(_ Project, at Instant) (ProjectCommand, error) { //nolint:unparam // as projectEvent has it
	overlap := time.Duration(e.PreviousUntil-at) * time.Millisecond
	return RotateSecret{At: at, EndpointID: e.EndpointID, Overlap: overlap, KeyVersion: e.KeyVersion}, nil
}

// withEndpoint returns the project with one endpoint changed.
func (p Project) withEndpoint(id string, change func(*Endpoint)) Project {
	p.Endpoints = slices.Clone(p.Endpoints)
	for i := range p.Endpoints {
		if p.Endpoints[i].ID == id {
			change(&p.Endpoints[i])
		}
	}
	return p
}

// happened checks that the time in an event is the time of its record.
func happened(named, recorded Instant) error {
	if named != recorded {
		return fmt.Errorf("it was recorded at %s and says it happened at %s", recorded, named)
	}
	return nil
}
