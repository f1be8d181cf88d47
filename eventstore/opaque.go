package eventstore

import "payledger/domain"

// Opaque stands in for an event that the reader of a copy may not see: the copy has only the hash
// of its leaf in the log's tree.
type Opaque struct{}

// Type implements domain.Event.
func (Opaque) Type() string { return KindOpaque }

// OpaqueRecord is a record of which only its position and the hash of its leaf are known. No
// store writes one.
func OpaqueRecord(at Position, leaf domain.Digest) Stored {
	return Stored{Position: at, Stream: Stream{Kind: KindOpaque}, Body: leaf[:], Event: Opaque{}}
}

// OpaqueLeaf is the leaf hash of an opaque record; ok is false for any other record.
func (r Stored) OpaqueLeaf() (leaf domain.Digest, ok bool) {
	if r.Stream != (Stream{Kind: KindOpaque}) || len(r.Body) != len(leaf) {
		return leaf, false
	}
	return domain.Digest(r.Body), true
}
