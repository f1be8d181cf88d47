package merchant

import (
	"context"
	"encoding/base32"
	"fmt"
	"io"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/wire"
)

func KeysOf(p domain.Project) []wire.Key {
	keys := make([]wire.Key, 0, len(p.Keys))
	for _, k := range p.Keys {
		keys = append(keys, wire.Key{KeyID: k.ID, Scopes: k.Scopes, Revoked: k.Revoked})
	}
	return keys
}

// executeOn runs a command on a project.
func ExecuteOn(ctx context.Context, cfg Config, id string, cmd domain.ProjectCommand, isNew bool) (domain.Project, error) {
	res, err := eventstore.Execute(ctx, cfg.Ledger, eventstore.ProjectStream(id), domain.Project{ID: id}, cmd,
		eventstore.Order{EventID: cfg.IDs.Next(), New: isNew})
	return res.State, err
}

// keyPrefix is before the ULID in a key's id.
const keyPrefix = "key_"

// issueKey makes a key of 256 random bits. The secret leaves the program here
// and nowhere else.
func IssueKey(ctx context.Context, cfg Config, project string, scopes []domain.Scope) (domain.Project, wire.Key, error) {
	var random [32]byte
	if _, err := io.ReadFull(cfg.Entropy, random[:]); err != nil {
		return domain.Project{}, wire.Key{}, fmt.Errorf("making an API key: %w", err)
	}
	secret := "sk_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random[:]))
	id := keyPrefix + cfg.IDs.Next().String()
	p, err := ExecuteOn(ctx, cfg, project, domain.IssueKey{KeyID: id, Hash: domain.HashKey(secret), Scopes: scopes}, false)
	return p, wire.Key{KeyID: id, Scopes: scopes, APIKey: secret}, err
}

// scopesOf reports false unless there is at least one scope and every one is
// known.
func ScopesOf(names []string) ([]domain.Scope, bool) {
	scopes := make([]domain.Scope, 0, len(names))
	for _, name := range names {
		if !slices.Contains(domain.AllScopes(), domain.Scope(name)) {
			return nil, false
		}
		scopes = append(scopes, domain.Scope(name))
	}
	return scopes, len(scopes) > 0
}
