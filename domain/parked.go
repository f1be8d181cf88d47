package domain

// ParkedSignal is a message that could not be judged as a signal and is kept
// for the operator.
type ParkedSignal struct {
	ID       uint64  `json:"id"` // rises with each that is parked
	ParkedAt Instant `json:"parked_at"`
	Reason   string  `json:"reason"`
	Detail   string  `json:"detail"`
	Subject  string  `json:"subject"`      // it was published on
	Bytes    int     `json:"bytes"`        // of its body, as it came
	Cut      bool    `json:"cut,omitzero"` // only the beginning of the body is kept
	Body     string  `json:"body"`
}

// ParkedPage is a part of all that is parked, oldest first.
type ParkedPage struct {
	Data       []ParkedSignal `json:"data"`
	Next       uint64         `json:"next,omitzero"` // the id to go on after; 0: there are no more
	Last       uint64         `json:"last"`          // the newest id there is
	Signals    uint64         `json:"signals"`       // how many there are in all
	Bytes      uint64         `json:"bytes"`         // they take, of LimitBytes, at which the oldest give way
	LimitBytes int64          `json:"limit_bytes"`
}
