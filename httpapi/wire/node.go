package wire

import "payledger/domain"

// Role is what a node of a cluster does.
type Role string

// The roles.
const (
	RoleSequencer Role = "sequencer" // writes the log and does what follows from it
	RoleFollower  Role = "follower"
	RoleStopped   Role = "stopped" // its log and the cluster's differ, or its program is too old for the cluster's
	RoleSilent    Role = "silent"  // it does not answer
	RoleWaiting   Role = "waiting" // for the other nodes: it takes no part yet
)

// Node is a node of a cluster as another one sees it.
type Node struct {
	Node     string `json:"node"`
	Here     bool   `json:"here"` // the one that was asked
	Role     Role   `json:"role"`
	Version  string `json:"version"`  // of its program; empty: not known
	Groups   uint64 `json:"groups"`   // the last group of LOG that it has
	Position uint64 `json:"position"` // of the last event that it has
	Lag      uint64 `json:"lag"`      // groups that it knows of and does not have yet
	Replica  string `json:"replica"`  // of LOG, as JetStream sees it

	// WitnessKey is the key with which its cosignatures are checked; empty: not known,
	// since it has been silent.
	WitnessKey string `json:"witness_key"`

	// CannotRead are some of the forms of events, as TYPE, version N, that the program of
	// another node reads and this one's does not: see eventstore.TooOldError.
	CannotRead []string `json:"cannot_read,omitzero"`

	// Extra are the first events that the node has and the cluster's log has not, if it is
	// stopped for that: POSITION KIND ID.
	Extra []string `json:"extra,omitzero"`

	Trouble   string          `json:"trouble,omitzero"` // the last
	TroubleAt *domain.Instant `json:"trouble_at,omitzero"`
}
