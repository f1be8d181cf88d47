package merchant

import (
	"context"
	"encoding/base32"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// KeysOf are a project's keys, the oldest first.
func KeysOf(p projects.Project) []wire.Key {
	keys := make([]wire.Key, 0, len(p.Keys))
	for _, k := range p.Keys {
		keys = append(keys, KeyOf(k))
	}
	return keys
}

// KeyOf is a key as it is shown.
func KeyOf(k projects.Key) wire.Key {
	return wire.Key{KeyID: k.ID, Name: k.Name, Scopes: k.Scopes, Revoked: k.Revoked}
}

// ChangeProject runs a command on a project, which is new or must exist.
func (a *API) ChangeProject(ctx context.Context, id string, why eventstore.Cause, cmd projects.ProjectCommand, isNew bool) (projects.Project, error) {
	return a.changeProject(ctx, id, cmd, eventstore.Order{EventID: a.cfg.IDs.Next(), Cause: why, New: isNew})
}

// SignOutProject ends all sessions of a project's account that have begun.
func (a *API) SignOutProject(ctx context.Context, id string, why eventstore.Cause) (projects.Project, error) {
	event := a.cfg.IDs.Next()
	return a.changeProject(ctx, id, projects.SignOutProject{At: domain.IDTime(event)}, eventstore.Order{EventID: event, Cause: why})
}

// SignOutKey ends all sessions of the account that have begun with the caller's key.
// Needs no scope, and takes from the budget of writes.
func (a *API) SignOutKey(ctx context.Context, c Caller) error {
	if err := a.writes.Allow(c.Project.ID, edge.PerSecond(a.Limits(c.Project).RateWrites), a.cfg.Now(), nil); err != nil {
		return err
	}
	_, err := a.ChangeProject(ctx, c.Project.ID, c.Cause(), projects.SignOutKey{KeyID: c.Key.ID}, false)
	return err
}

func (a *API) changeProject(ctx context.Context, id string, cmd projects.ProjectCommand, o eventstore.Order) (projects.Project, error) {
	res, err := a.Execute(ctx, id, cmd, o)
	return res.State, err
}

// folded is a project after a record of its stream.
type folded struct {
	projects.Project

	last eventstore.Stored
}

// Execute runs a command on a project. It goes on from where the command before ended: a project's
// stream grows with every change of a key or an endpoint.
func (a *API) Execute(ctx context.Context, id string, cmd projects.ProjectCommand, o eventstore.Order) (eventstore.Result[projects.Project], error) {
	p := folded{Project: projects.Project{ID: id}}
	if before, ok := a.folded.Load(id); ok {
		p = before.(folded)
	}
	stream := eventstore.ProjectStream(id)
	var err error
	if p.Project, p.last, err = eventstore.FoldAfter(ctx, a.cfg.Ledger, stream, p.Project, p.last); err != nil {
		return eventstore.Result[projects.Project]{}, err
	}
	if p.last.Position != 0 {
		a.folded.Store(id, p)
	}
	o.After = p.last
	return eventstore.Execute(ctx, a.cfg.Ledger, stream, p.Project, cmd, o)
}

// keyPrefix is before the ULID in a key's id.
const keyPrefix = "key_"

// ShownAgain is how long a request of the account for a key or an endpoint that comes
// again is answered with the secret that it has made. Later it is answered without.
const ShownAgain = time.Minute

// NewKey makes a key of 256 random bits, with a name or "". Its secret leaves the program only in
// this answer.
func (a *API) NewKey(ctx context.Context, project string, why eventstore.Cause, name string, scopes []projects.Scope) (projects.Project, wire.Key, error) {
	var random [32]byte
	if _, err := io.ReadFull(a.cfg.Entropy, random[:]); err != nil {
		return projects.Project{}, wire.Key{}, fmt.Errorf("making an API key: %w", err)
	}
	return a.keyFrom(ctx, random, project, why, name, scopes)
}

// keyFrom derives a key from the bits, or finds the one that was derived from them before.
func (a *API) keyFrom(
	ctx context.Context, random [32]byte, project string, why eventstore.Cause, name string, scopes []projects.Scope,
) (p projects.Project, key wire.Key, err error) {
	secret := "sk_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random[:]))
	id := keyPrefix + a.cfg.IDs.Next().String()
	hash := projects.HashKey(secret)
	if p, err = a.ChangeProject(ctx, project, why, projects.IssueKey{KeyID: id, Hash: hash, Scopes: scopes, Name: name}, false); err != nil {
		return p, key, err
	}
	made, live := p.Authenticate(hash)
	key = KeyOf(made)
	if live && (made.ID == id || a.cfg.Now().Sub(issuedAt(made).Time()) <= ShownAgain) {
		key.APIKey = secret
	}
	return p, key, nil
}

// issuedAt is when a key was issued, 0 if its id has no time.
func issuedAt(k projects.Key) domain.Instant {
	id, _ := domain.ParseID(strings.TrimPrefix(k.ID, keyPrefix))
	return domain.IDTime(id)
}

// ScopesOf reports false unless there is at least one scope and every one is
// known.
func ScopesOf(names []string) ([]projects.Scope, bool) {
	scopes := make([]projects.Scope, 0, len(names))
	for _, name := range names {
		if !slices.Contains(projects.AllScopes(), projects.Scope(name)) {
			return nil, false
		}
		scopes = append(scopes, projects.Scope(name))
	}
	return scopes, len(scopes) > 0
}

// Keys lists the project's keys, newest first. Needs read.
func (a *API) Keys(c Caller) ([]wire.AccountKey, error) {
	if err := a.Admit(&c, projects.Read, nil); err != nil {
		return nil, err
	}
	rows := []wire.AccountKey{}
	for _, k := range slices.Backward(c.Project.Keys) {
		rows = append(rows, a.keyOf(c, k))
	}
	return rows, nil
}

func (a *API) keyOf(c Caller, k projects.Key) wire.AccountKey {
	v := wire.AccountKey{Key: KeyOf(k), Current: k.ID == c.Key.ID}
	if at := issuedAt(k); at != 0 {
		v.CreatedAt = &at
	}
	if at, ok := a.cfg.KeyTimes.LastUse(k.ID); ok {
		v.LastUsedAt = &at
	}
	return v
}

// mayHandle refuses when a key has a scope that the caller's has not: callers can neither extend
// their rights nor revoke a stronger key.
func (c Caller) mayHandle(scopes []projects.Scope) error {
	for _, s := range scopes {
		if !c.Key.Has(s) {
			return wire.Problem{
				Code: domain.ScopeMissing, RequiredScope: s,
				Detail: "A key can be created, renamed or revoked only with a key that has all its scopes. See required_scope.",
			}
		}
	}
	return nil
}

// IssueKey makes a key with a name, or "", and the scopes, of random bits of the caller's. The
// secret is only in this answer, and in those to the same bits within ShownAgain; later requests
// with the same bits are answered with the key without its secret. Needs payments:write and every
// scope that is given.
func (a *API) IssueKey(ctx context.Context, c Caller, random [32]byte, name string, scopeNames []string) (key wire.Key, err error) {
	if err := a.Admit(&c, projects.PaymentsWrite, nil); err != nil {
		return key, err
	}
	scopes, known := ScopesOf(scopeNames)
	if !known {
		return key, domain.FieldErrors{{Field: "scopes", Code: domain.InvalidValue, Allowed: edge.Texts(projects.AllScopes())}}
	}
	scopes = slices.DeleteFunc(projects.AllScopes(), func(s projects.Scope) bool { return !slices.Contains(scopes, s) })
	if err := c.mayHandle(scopes); err != nil {
		return key, err
	}
	_, key, err = a.keyFrom(ctx, random, c.Project.ID, c.Cause(), name, scopes)
	return key, err
}

// RenameKey gives a key a name, or with "" none. Needs payments:write and every scope of
// the key.
func (a *API) RenameKey(ctx context.Context, c Caller, id, name string) error {
	return a.changeKey(ctx, c, id, projects.RenameKey{KeyID: id, Name: name})
}

// RevokeKey takes a key out of use. Needs payments:write and every scope of the key.
func (a *API) RevokeKey(ctx context.Context, c Caller, id string) error {
	return a.changeKey(ctx, c, id, projects.RevokeKey{KeyID: id})
}

// changeKey runs a command on a key that the caller may handle.
func (a *API) changeKey(ctx context.Context, c Caller, id string, cmd projects.ProjectCommand) error {
	if err := a.Admit(&c, projects.PaymentsWrite, nil); err != nil {
		return err
	}
	k, ok := c.Project.Key(id)
	if !ok {
		return &domain.Refusal{Code: domain.KeyNotFound}
	}
	if err := c.mayHandle(k.Scopes); err != nil {
		return err
	}
	_, err := a.ChangeProject(ctx, c.Project.ID, c.Cause(), cmd, false)
	return err
}
