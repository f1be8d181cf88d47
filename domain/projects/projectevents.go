package projects

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"payledger/domain"
)

// ProjectEvent is an event of a project's stream.
type ProjectEvent interface {
	domain.Event
	evolveProject(Project) Project
	// origin returns the command that must have led to the event, which was
	// recorded at the instant. The error says that no command does.
	origin(Project, domain.Instant) (ProjectCommand, error)
}

// Redecide checks an event recorded at the instant as Payment.Redecide does.
func (p Project) Redecide(e domain.Event, at domain.Instant) error {
	of, ok := e.(ProjectEvent)
	if !ok {
		return errors.New("it is no event of a project")
	}
	cmd, err := of.origin(p, at)
	if err != nil {
		return err
	}
	got, err := p.Decide(cmd)
	return domain.SameEvent(got, err, e, "this project", "")
}

// Wire names of events, part of the interface to auditors and subscribers.
const (
	TypeProjectRegistered       = "project.registered"
	TypeProjectChanged          = "project.changed"
	TypeProjectDisabled         = "project.disabled"
	TypeProjectSignedOut        = "project.signed_out"
	TypeKeyIssued               = "key.issued"
	TypeKeyRenamed              = "key.renamed"
	TypeKeySignedOut            = "key.signed_out"
	TypeKeyRevoked              = "key.revoked"
	TypeWebhookEndpointAdded    = "webhook_endpoint.added"
	TypeWebhookEndpointChanged  = "webhook_endpoint.changed"
	TypeWebhookEndpointDisabled = "webhook_endpoint.disabled"
	TypeWebhookEndpointEnabled  = "webhook_endpoint.enabled"
	TypeWebhookEndpointRemoved  = "webhook_endpoint.removed"
	TypeWebhookSecretRotated    = "webhook_secret.rotated"
)

// Events is the registry of the event types of projects. A version changes as
// domain.Events says:
//
//   - project.registered and project.changed, version 2: their settings have the
//     address of the shop, version 3: and the time zone, version 4: and limits,
//     version 5: and how long details are kept.
//   - key.issued, version 2: payments:write alone does not allow managing endpoints of webhooks any more,
//     version 3: it has the key's name.
func Events() []domain.EventType {
	at := domain.Instant(1795169730123)
	// Not domain.Kinds: a new kind changes no golden encoding.
	kinds := []domain.Kind{
		domain.KindPaymentCreated, domain.KindPaymentAwaitingPayment, domain.KindPaymentPaid, domain.KindPaymentExpired, domain.KindPaymentFailed,
		domain.KindRefundPending, domain.KindRefundSucceeded, domain.KindRefundFailed,
	}
	final := slices.Concat(kinds[2:5], kinds[6:])
	order := "order-1042"
	endpoint := "we_01M7W78FJBM8T4R7B5N0C1D2E3"
	settings := domain.DefaultSettings()
	settings.RequireIdempotencyKey, settings.ShopURL, settings.TimeZone = true, "https://shop.example.com/", "Europe/Moscow"
	settings.DetailsRetentionDays = 400
	for i, name := range domain.LimitNames() {
		own := 600 + i
		*settings.OwnLimit(name) = &own
	}
	return []domain.EventType{
		domain.NewEventType(5, ProjectRegistered{Name: "Чайная лавка", Settings: settings}),
		domain.NewEventType(5, ProjectChanged{Name: "Чайная лавка", Settings: settings}),
		domain.NewEventType(1, ProjectDisabled{}),
		domain.NewEventType(1, ProjectSignedOut{At: at}),
		domain.NewEventType(3, KeyIssued{KeyID: "key_01M7W78FJBM8T4R7B5N0C1D2E3", Hash: domain.Digest{7, 8, 9}, Scopes: AllScopes(), Name: "Чайная лавка"}),
		domain.NewEventType(1, KeyRenamed{KeyID: "key_01M7W78FJBM8T4R7B5N0C1D2E3", Name: "Чайная лавка"}),
		domain.NewEventType(1, KeySignedOut{KeyID: "key_01M7W78FJBM8T4R7B5N0C1D2E3"}),
		domain.NewEventType(1, KeyRevoked{KeyID: "key_01M7W78FJBM8T4R7B5N0C1D2E3"}),
		domain.NewEventType(1, WebhookEndpointAdded{
			EndpointID: endpoint, CreatedAt: at, URL: "https://shop.example.com/hooks", Kinds: final, Description: &order, KeyVersion: 1,
		}),
		domain.NewEventType(1, WebhookEndpointChanged{
			EndpointID: endpoint, URL: "https://shop.example.com/hooks", Kinds: kinds, Description: &order,
		}),
		domain.NewEventType(1, WebhookEndpointDisabled{At: at, EndpointID: endpoint, Reason: DisabledFailing}),
		domain.NewEventType(1, WebhookEndpointEnabled{EndpointID: endpoint}),
		domain.NewEventType(1, WebhookEndpointRemoved{EndpointID: endpoint}),
		domain.NewEventType(1, WebhookSecretRotated{EndpointID: endpoint, Generation: 2, KeyVersion: 1, PreviousUntil: at.Add(DefaultSecretOverlap)}),
	}
}

// ProjectRegistered is the first event of a project's stream.
type ProjectRegistered struct {
	Name     string          `json:"name"` // shown to customers as the merchant
	Settings domain.Settings `json:"settings"`
}

func (ProjectRegistered) Type() string { return TypeProjectRegistered }

func (e ProjectRegistered) evolveProject(p Project) Project {
	p.Name, p.Settings = e.Name, e.Settings
	return p
}

func (e ProjectRegistered) origin(p Project, _ domain.Instant) (ProjectCommand, error) {
	if p.Name != "" {
		return nil, errors.New("the project was registered before")
	}
	return RegisterProject(e), nil
}

// ProjectChanged replaces a project's name and settings.
type ProjectChanged struct {
	Name     string          `json:"name"`
	Settings domain.Settings `json:"settings"`
}

func (ProjectChanged) Type() string { return TypeProjectChanged }

func (e ProjectChanged) evolveProject(p Project) Project {
	p.Name, p.Settings = e.Name, e.Settings
	return p
}

func (e ProjectChanged) origin(Project, domain.Instant) (ProjectCommand, error) {
	return ChangeProject(e), nil
}

// ProjectDisabled disables a project's API. Its payments continue.
type ProjectDisabled struct{}

func (ProjectDisabled) Type() string { return TypeProjectDisabled }

func (e ProjectDisabled) evolveProject(p Project) Project {
	p.Disabled = true
	return p
}

func (e ProjectDisabled) origin(Project, domain.Instant) (ProjectCommand, error) {
	return DisableProject(e), nil
}

// ProjectSignedOut ends all sessions of a project's account that began before.
type ProjectSignedOut struct {
	At domain.Instant `json:"at"`
}

func (ProjectSignedOut) Type() string { return TypeProjectSignedOut }

func (e ProjectSignedOut) evolveProject(p Project) Project {
	p.SignedOutAt = e.At
	return p
}

func (e ProjectSignedOut) origin(_ Project, at domain.Instant) (ProjectCommand, error) {
	return SignOutProject(e), happened(e.At, at)
}

// KeyIssued adds an API key. Only the key's SHA-256 is ever recorded.
type KeyIssued struct {
	KeyID  string        `json:"key_id"`
	Hash   domain.Digest `json:"hash"`
	Scopes []Scope       `json:"scopes"`
	Name   string        `json:"name,omitempty"`
}

func (KeyIssued) Type() string { return TypeKeyIssued }

func (e KeyIssued) evolveProject(p Project) Project {
	p.Keys = append(slices.Clip(p.Keys), Key{ID: e.KeyID, Hash: e.Hash, Scopes: e.Scopes, Name: e.Name})
	return p
}

func (e KeyIssued) origin(Project, domain.Instant) (ProjectCommand, error) { return IssueKey(e), nil }

// KeyRenamed gives an API key another name, or with "" none.
type KeyRenamed struct {
	KeyID string `json:"key_id"`
	Name  string `json:"name"`
}

func (KeyRenamed) Type() string { return TypeKeyRenamed }

func (e KeyRenamed) evolveProject(p Project) Project {
	return p.withKey(e.KeyID, func(k *Key) { k.Name = e.Name })
}

func (e KeyRenamed) origin(Project, domain.Instant) (ProjectCommand, error) { return RenameKey(e), nil }

// KeySignedOut ends all sessions of the account that began with the key before. They are identified
// by the number of such events before, because the clocks of two nodes differ.
type KeySignedOut struct {
	KeyID string `json:"key_id"`
}

func (KeySignedOut) Type() string { return TypeKeySignedOut }

func (e KeySignedOut) evolveProject(p Project) Project {
	return p.withKey(e.KeyID, func(k *Key) { k.SignOuts++ })
}

func (e KeySignedOut) origin(Project, domain.Instant) (ProjectCommand, error) {
	return SignOutKey(e), nil
}

// KeyRevoked revokes an API key.
type KeyRevoked struct {
	KeyID string `json:"key_id"`
}

func (KeyRevoked) Type() string { return TypeKeyRevoked }

func (e KeyRevoked) evolveProject(p Project) Project {
	return p.withKey(e.KeyID, func(k *Key) { k.Revoked = true })
}

func (e KeyRevoked) origin(Project, domain.Instant) (ProjectCommand, error) { return RevokeKey(e), nil }

// WebhookEndpointAdded adds an endpoint. It is notified of the project's events
// from then on. Its first secret has generation 1.
type WebhookEndpointAdded struct {
	EndpointID  string         `json:"endpoint_id"`
	CreatedAt   domain.Instant `json:"created_at"`
	URL         string         `json:"url"`
	Kinds       []domain.Kind  `json:"kinds"`
	Description *string        `json:"description"`
	KeyVersion  int            `json:"key_version"`
}

func (WebhookEndpointAdded) Type() string { return TypeWebhookEndpointAdded }

func (e WebhookEndpointAdded) evolveProject(p Project) Project {
	p.Endpoints = append(slices.Clip(p.Endpoints), Endpoint{
		ID: e.EndpointID, URL: e.URL, Kinds: e.Kinds, Description: e.Description, CreatedAt: e.CreatedAt,
		Secret: Secret{Generation: 1, KeyVersion: e.KeyVersion},
	})
	return p
}

func (e WebhookEndpointAdded) origin(_ Project, at domain.Instant) (ProjectCommand, error) {
	return AddEndpoint{
		At: at, EndpointID: e.EndpointID, URL: e.URL, Kinds: e.Kinds, Description: e.Description, KeyVersion: e.KeyVersion,
	}, happened(e.CreatedAt, at)
}

// WebhookEndpointChanged replaces all members that an endpoint's owner can set.
type WebhookEndpointChanged struct {
	EndpointID  string        `json:"endpoint_id"`
	URL         string        `json:"url"`
	Kinds       []domain.Kind `json:"kinds"`
	Description *string       `json:"description"`
}

func (WebhookEndpointChanged) Type() string { return TypeWebhookEndpointChanged }

func (e WebhookEndpointChanged) evolveProject(p Project) Project {
	return p.withEndpoint(e.EndpointID, func(at *Endpoint) {
		at.URL, at.Kinds, at.Description = e.URL, e.Kinds, e.Description
	})
}

func (e WebhookEndpointChanged) origin(Project, domain.Instant) (ProjectCommand, error) {
	return ChangeEndpoint(e), nil
}

// WebhookEndpointDisabled stops notifications to an endpoint.
type WebhookEndpointDisabled struct {
	At         domain.Instant `json:"at"`
	EndpointID string         `json:"endpoint_id"`
	Reason     DisabledReason `json:"reason"`
}

func (WebhookEndpointDisabled) Type() string { return TypeWebhookEndpointDisabled }

func (e WebhookEndpointDisabled) evolveProject(p Project) Project {
	return p.withEndpoint(e.EndpointID, func(at *Endpoint) { at.Disabled, at.DisabledAt = e.Reason, e.At })
}

func (e WebhookEndpointDisabled) origin(_ Project, at domain.Instant) (ProjectCommand, error) {
	return DisableEndpoint{At: e.At, EndpointID: e.EndpointID, Reason: e.Reason}, happened(e.At, at)
}

// WebhookEndpointEnabled lets an endpoint be notified again.
type WebhookEndpointEnabled struct {
	EndpointID string `json:"endpoint_id"`
}

func (WebhookEndpointEnabled) Type() string { return TypeWebhookEndpointEnabled }

func (e WebhookEndpointEnabled) evolveProject(p Project) Project {
	return p.withEndpoint(e.EndpointID, func(at *Endpoint) { at.Disabled, at.DisabledAt = "", 0 })
}

func (e WebhookEndpointEnabled) origin(Project, domain.Instant) (ProjectCommand, error) {
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

func (e WebhookEndpointRemoved) origin(Project, domain.Instant) (ProjectCommand, error) {
	return RemoveEndpoint(e), nil
}

// WebhookSecretRotated gives an endpoint the secret of the next generation. The
// previous secret stays valid until PreviousUntil.
type WebhookSecretRotated struct {
	EndpointID    string         `json:"endpoint_id"`
	Generation    int            `json:"generation"`
	KeyVersion    int            `json:"key_version"`
	PreviousUntil domain.Instant `json:"previous_until"`
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

func (e WebhookSecretRotated) origin(_ Project, at domain.Instant) (ProjectCommand, error) { //nolint:unparam // as projectEvent has it
	overlap := time.Duration(e.PreviousUntil-at) * time.Millisecond
	return RotateSecret{At: at, EndpointID: e.EndpointID, Overlap: overlap, KeyVersion: e.KeyVersion}, nil
}

// withKey returns the project with one key changed.
func (p Project) withKey(id string, change func(*Key)) Project {
	p.Keys = slices.Clone(p.Keys)
	for i := range p.Keys {
		if p.Keys[i].ID == id {
			change(&p.Keys[i])
		}
	}
	return p
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
func happened(named, recorded domain.Instant) error {
	if named != recorded {
		return fmt.Errorf("it was recorded at %s and says it happened at %s", recorded, named)
	}
	return nil
}
