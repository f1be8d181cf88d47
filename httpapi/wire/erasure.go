package wire

// Erasure is what one request to erase a project's payments did.
type Erasure struct {
	Erased int `json:"erased"`
	// InLog is how many payments cannot be erased, because they were recorded before details were kept
	// apart from the log.
	InLog   int    `json:"in_log"`
	Damaged int    `json:"damaged,omitzero"` // how many cannot be erased, because their events cannot be read
	Next    string `json:"next,omitempty"`   // the payment behind which the next request goes on; "": there are no more
}
