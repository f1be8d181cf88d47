package domain

import "strings"

// FieldError says what is wrong with one field of a command. Only the members
// that explain the code are set.
type FieldError struct {
	Field    string // member name at the top of the body; "" while unknown
	Code     Code
	Allowed  []string // values that would do, where they can be listed
	Limit    int      // too_long: characters; payload_too_large: bytes
	Got      int      // what was sent, in the unit of Limit
	Min, Max Amount   // amount_too_small, amount_too_large
	Why      string   // target_not_allowed: for people, repeating nothing secret
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return string(e.Code)
	}
	return e.Field + ": " + string(e.Code)
}

// InField returns a copy of the error that names its field.
func (e *FieldError) InField(name string) *FieldError {
	c := *e
	c.Field = name
	return &c
}

// FieldErrors are all that is wrong with a command's fields.
type FieldErrors []*FieldError

func (e FieldErrors) Error() string {
	all := make([]string, len(e))
	for i, f := range e {
		all[i] = f.Error()
	}
	return strings.Join(all, "; ")
}

// Refusal is the answer of Decide to a command that is well formed but cannot
// be carried out in the present state. Only the members that explain the code
// are set.
type Refusal struct {
	Code          Code
	PaymentStatus PaymentStatus // payment_not_paid, final_status
	RefundID      ID            // refund_exists
	RefundStatus  RefundStatus  // refund_exists
	EventID       ID            // delivery_superseded: the newest event that can be sent
}

func (e *Refusal) Error() string { return string(e.Code) }

// TooEarlyError is the answer of Decide to a command whose time has not come;
// it may be tried again unchanged.
type TooEarlyError struct {
	// Until is the first instant at which the command can succeed; zero when
	// it waits for an event instead of a time.
	Until Instant
}

func (e *TooEarlyError) Error() string {
	if e.Until == 0 {
		return "too early: the payment has no route yet"
	}
	return "too early: not before " + e.Until.String()
}

// UnrecordedError is the answer of Decide to a signal that is refused and not
// recorded: the payment has recorded many refusals, so this one is counted by
// the caller.
type UnrecordedError struct{ Reason string }

func (e *UnrecordedError) Error() string {
	return "the signal is refused and, like most of many, not recorded: " + e.Reason
}
