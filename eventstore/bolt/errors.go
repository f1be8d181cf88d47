package bolt

import (
	"errors"
	"strings"
)

// Why a log cannot be opened or written to.
var (
	// ErrMissing: there is no file.
	ErrMissing = errors.New("there is no event log")
	// ErrExists: Init found a file.
	ErrExists = errors.New("there is a file already")
	// ErrLocked: another process has the log open.
	ErrLocked = errors.New("the event log is in use by another process")
	// ErrForeign: the file is something else.
	ErrForeign = errors.New("this is not an event log of payledger")
	// ErrVersion: the file's format is newer than this program.
	ErrVersion = errors.New("the event log was written by a newer payledger")
	// ErrOutdated: the file's format is older than this program knows.
	ErrOutdated = errors.New("the event log was written by an older payledger")
	// ErrDamaged: the file was an event log and cannot be opened any more.
	ErrDamaged = errors.New("the event log is damaged")
	// ErrReadOnly: the store was opened for reading only.
	ErrReadOnly = errors.New("the event log was opened for reading only")
)

// OpenError says why a log could not be opened or made, and what to do. Err is one
// of the errors of this package or the system's.
type OpenError struct {
	Path   string
	Err    error
	Detail string // what was seen; may be empty
	Advice string // what to do; may be empty
}

func (e *OpenError) Error() string {
	var b strings.Builder
	b.WriteString(e.Path + ": " + e.Err.Error())
	if e.Detail != "" {
		b.WriteString(" (" + e.Detail + ")")
	}
	if e.Advice != "" {
		b.WriteString(": " + e.Advice)
	}
	return b.String()
}

func (e *OpenError) Unwrap() error { return e.Err }

func damaged(path, detail string) error {
	return &OpenError{
		Path: path, Err: ErrDamaged, Detail: detail,
		Advice: "nothing was changed; keep a copy of the file, then restore the newest backup with what came after it, see \"payledger restore --help\"",
	}
}

func foreign(path, detail string) error {
	return &OpenError{Path: path, Err: ErrForeign, Detail: detail, Advice: "check the path of the data directory"}
}
