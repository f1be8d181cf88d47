package wire

import (
	"payledger/domain"
	"payledger/domain/settlement"
)

// Route is a route as the operator sees it.
type Route struct {
	Route   string        `json:"route"`
	Type    string        `json:"type"`    // of its connector
	Rules   []domain.Rule `json:"rules"`   // that lead to it
	Retired bool          `json:"retired"` // the routes file does not name it any more; its connector ends with the server
	Paused  *RoutePause   `json:"paused,omitempty"`

	FeesPaidBy   settlement.Bearer `json:"fees_paid_by,omitzero"`  // "": the operator
	SettledSince domain.Instant    `json:"settled_since,omitzero"` // from when on reports are to have its outcomes; 0: all of them
}

// RoutePause is since when the operator has paused a route: it gets no payments, and
// no attempt begins on it.
type RoutePause struct {
	Since  domain.Instant `json:"since"`
	Reason string         `json:"reason,omitzero"`
}
