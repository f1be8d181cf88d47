package wire

// Erasure is what one request to erase a project's payments did.
type Erasure struct {
	Erased int `json:"erased"`
	// InLog is how many payments cannot be erased, because they were recorded before details were kept
	// apart from the log.
	InLog int    `json:"in_log"`
	Next  string `json:"next,omitempty"` // the payment behind which the next request goes on; "": there are no more
}
