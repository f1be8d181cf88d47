package cli

import "fmt"

// The exit codes, as "payledger --help" lists them.
const (
	ExitFailed    = 1
	ExitUsage     = 2 // wrong flags or arguments
	ExitDirectory = 3 // data directory or backup missing, damaged or not ours
	ExitInUse     = 4 // another process has the data directory
	ExitRefused   = 5 // by the ledger
	ExitAddress   = 6 // in use or not available
	ExitVerify    = 7 // verification failed
)

// ExitError is an error with the exit code it leads to.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap returns the error without its code.
func (e *ExitError) Unwrap() error { return e.Err }

// Errorf makes an error that leads to an exit code.
func Errorf(code int, format string, args ...any) error {
	return &ExitError{code, fmt.Errorf(format, args...)}
}

// WithCode gives an error its exit code.
func WithCode(code int, err error) error { return &ExitError{code, err} }
