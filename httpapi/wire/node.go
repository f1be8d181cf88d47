package wire

import "payledger/domain"

// Role is what a node of a cluster does.
type Role string

// The roles.
const (
	RoleLeader   Role = "leader" // writes the log and does what follows from it
	RoleFollower Role = "follower"
	RoleStopped  Role = "stopped" // its log and the cluster's differ
	RoleSilent   Role = "silent"  // it does not answer
	RoleWaiting  Role = "waiting" // for the other nodes: there is no leader yet
)

// Node is a node of a cluster as another one sees it.
type Node struct {
	Node     string `json:"node"`
	Here     bool   `json:"here"` // the one that was asked
	Role     Role   `json:"role"`
	Version  string `json:"version"`  // of its program; empty: not known
	Position uint64 `json:"position"` // of the last event that it has
	Lag      uint64 `json:"lag"`      // groups that it knows of and does not have yet

	// WitnessKey is the key with which its cosignatures are checked; empty: not known,
	// since it has been silent.
	WitnessKey string `json:"witness_key"`

	Trouble   string          `json:"trouble,omitzero"` // the last
	TroubleAt *domain.Instant `json:"trouble_at,omitzero"`
}
