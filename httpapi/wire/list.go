package wire

import "github.com/go-json-experiment/json/jsontext"

// Page is one page of a list.
type Page[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"next_cursor"` // null on the last page
}

// EventLine is a record as it is listed: the stored bytes, unchanged, and their position. Of an
// opaque record Leaf, the hash of its leaf in the log's tree, takes the place of Event.
type EventLine struct {
	Position uint64         `json:"position"`
	Event    jsontext.Value `json:"event,omitzero"`
	Leaf     []byte         `json:"leaf,omitzero"`
}
