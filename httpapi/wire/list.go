package wire

import "github.com/go-json-experiment/json/jsontext"

// Page is one page of a list.
type Page[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"next_cursor"` // null on the last page
}

// EventLine is a record as it is listed: the stored bytes, unchanged, and their position; and the
// details that it commits to: SHA-256 of the salt's bytes and then those of Details, exactly as they
// stand here. A record has none, or they were erased. Of an opaque record Leaf, the hash of its leaf
// in the log's tree, takes the place of all that.
type EventLine struct {
	Position uint64         `json:"position"`
	Event    jsontext.Value `json:"event,omitzero"`
	Details  jsontext.Value `json:"details,omitempty"`
	Salt     string         `json:"salt,omitempty"` // in hexadecimal
	Leaf     []byte         `json:"leaf,omitzero"`
}
