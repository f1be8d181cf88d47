// Package projects holds the rules of the second aggregate, Project: a
// merchant's name and settings, its API keys and its webhook endpoints. Like
// package domain it is pure: commands carry times and ids. Events of projects
// move no money. What a new payment is checked against, domain.Settings, is in
// domain, so that the payment's rules need no project.
package projects

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"strings"
	"unicode/utf8"

	"payledger/domain"
)

// Scope is one permission of an API key.
type Scope string

// The scopes a key can have.
const (
	PaymentsWrite Scope = "payments:write"
	RefundsWrite  Scope = "refunds:write"
	WebhooksWrite Scope = "webhooks:write" // manage webhook endpoints, which receive all outcomes
	Read          Scope = "read"
	Audit         Scope = "audit"
)

// AllScopes returns every scope, the default of a new key.
func AllScopes() []Scope { return []Scope{PaymentsWrite, RefundsWrite, WebhooksWrite, Read, Audit} }

// MaxProjectName is the longest project name, in code points.
const MaxProjectName = 128

// MaxKeyName is the longest name of an API key, in code points.
const MaxKeyName = 64

// Key is an issued API key. Only its hash is stored.
type Key struct {
	ID      string        `json:"id"`
	Name    string        `json:"name,omitempty"` // chosen by the merchant; "" for none
	Hash    domain.Digest `json:"hash"`
	Scopes  []Scope       `json:"scopes"`
	Revoked bool          `json:"revoked,omitempty"`

	SignOuts int `json:"sign_outs,omitzero"` // how often all sessions of the account that began with the key were ended
}

// HashKey is the hash under which an API key's secret is stored. Keys have at
// least 160 random bits, so a plain SHA-256 resists a search.
func HashKey(secret string) domain.Digest {
	var room [128]byte // fits every issued key: no allocation
	return sha256.Sum256(append(room[:0], secret...))
}

// Project is the state of one merchant project: the fold of its stream. With an
// empty Name it does not exist.
type Project struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Settings  domain.Settings `json:"settings"`
	Disabled  bool            `json:"disabled,omitempty"`
	Keys      []Key           `json:"keys,omitempty"`      // oldest first, revoked ones included
	Endpoints []Endpoint      `json:"endpoints,omitempty"` // oldest first

	SignedOutAt domain.Instant `json:"signed_out_at,omitzero"` // sessions of the account that began before are over; 0: never
}

// Authenticate finds the key with this hash that is not revoked. It compares
// every key in constant time, so the time shows neither which key matches nor
// how many bytes of the hash do.
func (p Project) Authenticate(hash domain.Digest) (Key, bool) {
	var found Key
	ok := false
	for _, k := range p.Keys {
		if subtle.ConstantTimeCompare(k.Hash[:], hash[:]) == 1 && !k.Revoked {
			found, ok = k, true
		}
	}
	return found, ok
}

// Has reports whether the key has the scope.
func (k Key) Has(s Scope) bool { return slices.Contains(k.Scopes, s) }

// ProjectCommand is a request to change a project.
type ProjectCommand interface {
	decideProject(Project) (domain.Event, error)
}

// RegisterProject creates a project.
type RegisterProject ProjectRegistered

// ChangeProject replaces a project's name and settings.
type ChangeProject ProjectChanged

// EditProject changes what Edit changes of a project's name and settings and leaves the
// rest as it is when the command is decided. So two edits of different members do not
// overwrite each other, in either order. Edit must not change what the members point to.
type EditProject struct {
	Edit func(name *string, s *domain.Settings)
}

// DisableProject disables a project's API.
type DisableProject struct{}

// SignOutProject ends all sessions of a project's account.
type SignOutProject struct{ At domain.Instant }

// IssueKey adds an API key, given by its hash, with at least one scope. There is nothing to
// do when the project has or had a key of that hash: the same request came twice. With another name
// or other scopes it is refused: idempotency_key_reused.
type IssueKey KeyIssued

// RenameKey gives an API key another name, or with "" none.
type RenameKey KeyRenamed

// SignOutKey ends all sessions of the account that began with an API key.
type SignOutKey struct{ KeyID string }

// RevokeKey revokes an API key.
type RevokeKey struct{ KeyID string }

// Decide returns the one event that the command leads to, or nil when there is
// nothing to do. The error says why the command is refused: a FieldErrors or a
// *Refusal.
func (p Project) Decide(c ProjectCommand) (domain.Event, error) {
	if _, registers := c.(RegisterProject); p.Name == "" && !registers {
		return nil, &domain.Refusal{Code: domain.ProjectNotFound}
	}
	return c.decideProject(p)
}

// Evolve returns the project after the event. Events of other aggregates are
// ignored.
func (p Project) Evolve(e domain.Event) Project {
	if pe, ok := e.(ProjectEvent); ok {
		return pe.evolveProject(p)
	}
	return p
}

func validateProject(name string, s domain.Settings) error {
	errs := s.Validate()
	if err := validateName(name, MaxProjectName); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return errs
	}
	return nil
}

// validateName checks the member "name" of a command; most is the longest one, in
// code points.
func validateName(name string, most int) *domain.FieldError {
	switch n := utf8.RuneCountInString(name); {
	case strings.TrimSpace(name) == "":
		return &domain.FieldError{Field: "name", Code: domain.Required}
	case n > most:
		return &domain.FieldError{Field: "name", Code: domain.TooLong, Limit: most, Got: n}
	case !utf8.ValidString(name):
		return &domain.FieldError{Field: "name", Code: domain.InvalidValue}
	case domain.HasControl(name):
		return &domain.FieldError{Field: "name", Code: domain.ControlCharacter}
	}
	return nil
}

func (c RegisterProject) decideProject(p Project) (domain.Event, error) {
	if p.Name != "" {
		// Cannot happen: the caller issues a new id for each object.
		return nil, &domain.Refusal{Code: domain.InternalError}
	}
	if err := validateProject(c.Name, c.Settings); err != nil {
		return nil, err
	}
	return ProjectRegistered(c), nil
}

func (c ChangeProject) decideProject(Project) (domain.Event, error) {
	if err := validateProject(c.Name, c.Settings); err != nil {
		return nil, err
	}
	return ProjectChanged(c), nil
}

func (c EditProject) decideProject(p Project) (domain.Event, error) {
	all := ChangeProject{Name: p.Name, Settings: p.Settings}
	c.Edit(&all.Name, &all.Settings)
	return all.decideProject(p)
}

func (c DisableProject) decideProject(p Project) (domain.Event, error) {
	if p.Disabled {
		return nil, nil
	}
	return ProjectDisabled{}, nil
}

func (c SignOutProject) decideProject(Project) (domain.Event, error) {
	return ProjectSignedOut(c), nil
}

func (c IssueKey) decideProject(p Project) (domain.Event, error) {
	if len(c.Scopes) == 0 {
		return nil, domain.FieldErrors{{Field: "scopes", Code: domain.Required}}
	}
	if err := validateKeyName(c.Name); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(c.Scopes, func(s Scope) bool { return !slices.Contains(AllScopes(), s) }) {
		return nil, domain.FieldErrors{{Field: "scopes", Code: domain.InvalidValue}}
	}
	if k, made := domain.Find(p.Keys, func(k Key) bool { return k.Hash == c.Hash }); made {
		return nil, repeated(k.Name == c.Name && slices.Equal(k.Scopes, c.Scopes))
	}
	if slices.ContainsFunc(p.Keys, func(k Key) bool { return k.ID == c.KeyID }) {
		// Cannot happen: the caller issues a new id for each object.
		return nil, &domain.Refusal{Code: domain.InternalError}
	}
	return KeyIssued(c), nil
}

// repeated refuses a request that comes again with other content than made what there is.
func repeated(same bool) error {
	if same {
		return nil
	}
	return &domain.Refusal{Code: domain.IdempotencyKeyReused}
}

func (c RenameKey) decideProject(p Project) (domain.Event, error) {
	k, ok := p.Key(c.KeyID)
	if !ok {
		return nil, &domain.Refusal{Code: domain.KeyNotFound}
	}
	if err := validateKeyName(c.Name); err != nil {
		return nil, err
	}
	if k.Name == c.Name {
		return nil, nil
	}
	return KeyRenamed(c), nil
}

// Key finds one of the project's keys.
func (p Project) Key(id string) (Key, bool) {
	return domain.Find(p.Keys, func(k Key) bool { return k.ID == id })
}

func validateKeyName(name string) error {
	if name == "" {
		return nil
	}
	if err := validateName(name, MaxKeyName); err != nil {
		return domain.FieldErrors{err}
	}
	return nil
}

func (c SignOutKey) decideProject(p Project) (domain.Event, error) {
	if _, ok := p.Key(c.KeyID); !ok {
		return nil, &domain.Refusal{Code: domain.KeyNotFound}
	}
	return KeySignedOut(c), nil
}

func (c RevokeKey) decideProject(p Project) (domain.Event, error) {
	switch k, ok := p.Key(c.KeyID); {
	case !ok:
		return nil, &domain.Refusal{Code: domain.KeyNotFound}
	case k.Revoked:
		return nil, nil
	}
	return KeyRevoked(c), nil
}
