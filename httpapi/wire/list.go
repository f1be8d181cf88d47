package wire

import "github.com/go-json-experiment/json/jsontext"

// page is the answer of a list.
type Page struct {
	Data       any     `json:"data"`
	NextCursor *string `json:"next_cursor"` // null on the last page
}

// eventLine is a record as it is listed: the stored bytes, unchanged, and
// where they stand.
type EventLine struct {
	Position uint64         `json:"position"`
	Event    jsontext.Value `json:"event"`
}
