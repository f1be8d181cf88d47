package wire

import (
	"payledger/domain"
	"payledger/domain/projects"
)

// OperatorHeader names the person who acts, in a request to the administration.
const OperatorHeader = "Payledger-Operator"

// Project is a project as its operator sees it.
type Project struct {
	ProjectID string          `json:"project_id"`
	Name      string          `json:"name"`
	Disabled  bool            `json:"disabled"`
	Settings  domain.Settings `json:"settings"`
	Limits    []Limit         `json:"limits,omitempty"` // in force; absent when no server runs
	Keys      []Key           `json:"keys"`
	KeyID     string          `json:"key_id,omitempty"`  // of the first key, when the project was just made
	APIKey    string          `json:"api_key,omitempty"` // its secret, likewise
}

// Limit is one of the limits in force.
type Limit struct {
	Name  string `json:"name"` // as among the settings
	Value int    `json:"value"`
	From  string `json:"from"` // "project": of its settings; "server"
}

// LimitsOf are the limits in force for a project with the settings, on a server with
// these limits.
func LimitsOf(s domain.Settings, server domain.Limits) []Limit {
	all := s.LimitsOver(server)
	var list []Limit
	for _, name := range domain.LimitNames() {
		from := "server"
		if *s.OwnLimit(name) != nil {
			from = "project"
		}
		list = append(list, Limit{Name: name, Value: *all.Named(name), From: from})
	}
	return list
}

// Key is an API key; its secret is in the answer that issues it and in no other.
type Key struct {
	KeyID   string           `json:"key_id"`
	Name    string           `json:"name,omitempty"` // chosen by the merchant
	Scopes  []projects.Scope `json:"scopes"`
	Revoked bool             `json:"revoked"`
	APIKey  string           `json:"api_key,omitempty"` // only when the key was just issued
}

// AccountKey is an API key as its merchant sees it.
type AccountKey struct {
	Key

	CreatedAt  *domain.Instant `json:"created_at"`   // null when its id has no time
	LastUsedAt *domain.Instant `json:"last_used_at"` // null when not known to have been used
	Current    bool            `json:"current"`      // the session's own
}
