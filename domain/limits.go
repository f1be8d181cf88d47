package domain

import "time"

// Limits bound how often a project's API and payment pages are called, and how long
// sessions of its account last. A rate of 0 is no limit. Rates a second allow bursts
// of twice as many requests, rates a minute of as many.
type Limits struct {
	RateWrites         int // a second: requests that may change something
	RateReads          int // a second: other requests, and as many pages of the account
	RateCustomers      int // a minute and address: requests to payment pages, a tenth of them forms
	SessionIdleSeconds int // a session ends when it was not used for so long
	SessionMaxSeconds  int // and when it is so old
}

// DefaultLimits are those of a server without flags for them.
func DefaultLimits() Limits {
	return Limits{
		RateWrites: 25, RateReads: 100, RateCustomers: 600,
		SessionIdleSeconds: int((30 * time.Minute).Seconds()), SessionMaxSeconds: int((12 * time.Hour).Seconds()),
	}
}

// The bounds of limits.
const (
	MaxRate           = 1_000_000
	MinSessionSeconds = 5 * 60
	MaxSessionSeconds = 30 * 24 * 60 * 60
)

// LimitNames are the wire names of all limits.
func LimitNames() []string {
	return []string{"rate_writes", "rate_reads", "rate_customers", "session_idle_seconds", "session_max_seconds"}
}

// Named is the limit with a wire name, nil for other names.
func (l *Limits) Named(name string) *int {
	switch name {
	case "rate_writes":
		return &l.RateWrites
	case "rate_reads":
		return &l.RateReads
	case "rate_customers":
		return &l.RateCustomers
	case "session_idle_seconds":
		return &l.SessionIdleSeconds
	case "session_max_seconds":
		return &l.SessionMaxSeconds
	}
	return nil
}

// LimitBounds are the least and the greatest value of the limit with a wire name.
func LimitBounds(name string) (least, greatest int) {
	switch name {
	case "session_idle_seconds", "session_max_seconds":
		return MinSessionSeconds, MaxSessionSeconds
	}
	return 0, MaxRate
}

// Validate checks the limits against their bounds.
func (l Limits) Validate() (errs FieldErrors) {
	for _, name := range LimitNames() {
		if least, greatest := LimitBounds(name); *l.Named(name) < least || *l.Named(name) > greatest {
			errs = append(errs, &FieldError{Field: name, Code: InvalidValue})
		}
	}
	return errs
}

// OwnLimit is the project's own limit with a wire name, nil for other names.
func (s *Settings) OwnLimit(name string) **int {
	switch name {
	case "rate_writes":
		return &s.RateWrites
	case "rate_reads":
		return &s.RateReads
	case "rate_customers":
		return &s.RateCustomers
	case "session_idle_seconds":
		return &s.SessionIdleSeconds
	case "session_max_seconds":
		return &s.SessionMaxSeconds
	}
	return nil
}

// LimitsOver are the limits in force: the project's own, and for the others those of
// the server.
func (s Settings) LimitsOver(server Limits) Limits {
	set := func(to, own *int) {
		if own != nil {
			*to = *own
		}
	}
	set(&server.RateWrites, s.RateWrites)
	set(&server.RateReads, s.RateReads)
	set(&server.RateCustomers, s.RateCustomers)
	set(&server.SessionIdleSeconds, s.SessionIdleSeconds)
	set(&server.SessionMaxSeconds, s.SessionMaxSeconds)
	return server
}
