package wire

import "payledger/domain"

// Role is what a node of a cluster does.
type Role string

// The roles.
const (
	RoleSequencer Role = "sequencer" // writes the log and does what follows from it
	RoleFollower  Role = "follower"
	RoleStopped   Role = "stopped" // its log and the cluster's differ: it has to be made anew
	RoleSilent    Role = "silent"  // it does not answer
	RoleWaiting   Role = "waiting" // for the other nodes: it takes no part yet
)

// Node is a node of a cluster as another one sees it.
type Node struct {
	Node     string `json:"node"`
	Here     bool   `json:"here"` // the one that was asked
	Role     Role   `json:"role"`
	Groups   uint64 `json:"groups"`   // the last group of LOG that it has
	Position uint64 `json:"position"` // of the last event that it has
	Lag      uint64 `json:"lag"`      // groups that it knows of and does not have
	Replica  string `json:"replica"`  // of LOG, as JetStream sees it

	// WitnessKey is the key with which its cosignatures are checked; empty: not known,
	// since it has been silent.
	WitnessKey string `json:"witness_key"`

	// Extra are the first events that the node has and the cluster's log has not, if it is
	// stopped for that: POSITION KIND ID.
	Extra []string `json:"extra,omitzero"`

	Trouble   string          `json:"trouble,omitzero"` // the last
	TroubleAt *domain.Instant `json:"trouble_at,omitzero"`
}
