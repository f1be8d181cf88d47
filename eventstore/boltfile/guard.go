package boltfile

import (
	"errors"
	"runtime/debug"
)

// Guard turns panics of bbolt, and faults in its mapped file, into a *DamagedError.
func Guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = damage("%v", p)
		}
	}()
	return fn()
}

// Damaged reports whether an error is about a damaged or foreign file.
func Damaged(err error) bool { return errors.As(err, new(*DamagedError)) }
