// Package translog makes changes to the event log detectable: a Merkle tree over the stored bytes
// of every event, signed checkpoints of the tree, and proofs that anyone with a checkpoint and the
// verifier key can check. If an event is later edited, removed, moved or inserted, or the end of
// the log is cut off, the root changes; two signed checkpoints with different roots prove the
// change.
//
// # The tree
//
// The tree is that of RFC 6962, section 2.1, with SHA-256, as in
// golang.org/x/mod/sumdb/tlog. Leaf n, from 0, is the event at position n+1;
// its hash is SHA-256(0x00 || stored bytes), the bytes exactly as the log, the
// exports and NATS have them. A tree of size n covers the positions 1 to n.
//
// # Checkpoints
//
// A checkpoint is a C2SP tlog-checkpoint (https://c2sp.org/tlog-checkpoint), a
// C2SP signed note (https://c2sp.org/signed-note) of three lines: the origin,
// which is "payledger/" and the log's id, the size in decimal and the root hash
// in base64; then an empty line and the signature by an Ed25519 key whose name
// is the origin.
//
//	payledger/01M7W78FJBM8T4R7B5N0C1D2E3
//	88417
//	nND/nri/U0xuHUrYSy0HtMeal2vzD9V4k/BO79C+QeI=
//
//	— payledger/01M7W78FJBM8T4R7B5N0C1D2E3 Az3grlgt…
//
// Witnesses, who have copies of the log, add their signatures: C2SP cosignatures
// (https://c2sp.org/tlog-cosignature), which say when they agreed.
//
// The verifier key is one line, name+hash+key, as package note makes it.
//
// # Proofs
//
// Proofs are JSON; hashes are in base64, in the order of RFC 6962, sections
// 2.1.1 and 2.1.2. They contain no root and no leaf, so that a checker must take
// those from its own checkpoint and event:
//
//	{"position":3,"size":88417,"hashes":["…",…]}
//	{"from":70000,"to":88417,"hashes":["…",…]}
//
// # Receipts
//
// A receipt proves the events of a payment: a head, a block for each event, in the order of the log,
// and the checkpoint. A block is the event's stored bytes on one line, and its inclusion as a C2SP
// tlog-proof (https://c2sp.org/tlog-proof) has it. An empty line ends the head and each block; so a
// block without its first line, an empty line and the checkpoint are a whole tlog-proof.
//
//	payledger receipt v1
//	payment 01M7W78FJBM8T4R7B5N0C1D2E3
//	events 2
//
//	{"id":"01M7W78FJB…","type":"payment.created",…}
//	c2sp.org/tlog-proof@v1
//	index 2
//	gSKyXoYZUgZ6jduWYrkDOARinOMGJveXjgMkBTcdPlQ=
//
//	{"id":"01M7W7EYW0…","type":"payment.paid",…}
//	c2sp.org/tlog-proof@v1
//	index 7
//	B95lDa8R83lS8n0eG+o0buTxRKQTYFi//1U8anccXmA=
//	EKNzoDWG8LGC0Yp9o+sv3qllpMP9uHQ9B20KNL+Q1zs=
//
//	payledger/01M7W78FJBM8T4R7B5N0C1D2E3
//	88417
//	nND/nri/U0xuHUrYSy0HtMeal2vzD9V4k/BO79C+QeI=
//
//	— payledger/01M7W78FJBM8T4R7B5N0C1D2E3 Az3grlgt…
//
// # Tiles
//
// The tree's hashes are served as C2SP tlog-tiles (https://c2sp.org/tlog-tiles):
// tile/<L>/<N>[.p/<W>], 256 hashes of 32 bytes each, or W of them at the right
// edge; N is written in groups of three digits, as in x001/x234/067.
package translog

import (
	"strings"

	"payledger/domain"
)

const originPrefix = "payledger/"

// Origin names a log in its checkpoints and as the owner of its key.
func Origin(log domain.ID) string { return originPrefix + log.String() }

// LogOf reads the log's id from an origin.
func LogOf(origin string) (domain.ID, bool) {
	id, ok := strings.CutPrefix(origin, originPrefix)
	if !ok {
		return domain.ID{}, false
	}
	return domain.ParseID(id)
}
