// Package exit has the program's exit codes and the errors that lead to them.
package exit

import "fmt"

// The exit codes, as "payledger --help" lists them.
const (
	Failed    = 1
	Usage     = 2 // wrong flags or arguments
	Directory = 3 // data directory or backup missing, damaged or not ours
	InUse     = 4 // another process has the data directory
	Refused   = 5 // by the ledger
	Address   = 6 // in use or wrong
	Verify    = 7 // verification failed
)

// Error is an error with the exit code it leads to.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap answers the error without its code.
func (e *Error) Unwrap() error { return e.Err }

// With makes an error that leads to an exit code.
func With(code int, format string, args ...any) error {
	return &Error{code, fmt.Errorf(format, args...)}
}

// Wrap gives an error its exit code.
func Wrap(code int, err error) error { return &Error{code, err} }
