// Package health is how a part says that it works, to the log and as a metric, and
// how long it waits before it tries again when it does not.
package health

import (
	"sync"

	"github.com/rs/zerolog"
)

// State is the error because of which a part does not work at present. It is logged when it begins,
// changes or ends, not at each try. Safe for concurrent use.
type State struct {
	Log  zerolog.Logger
	Part string

	mu  sync.Mutex
	err error
}

// Set sets the present error; nil: the part works.
func (t *State) Set(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil && t.err != nil:
		t.Log.Info().Str("part", t.Part).Msg("works again")
	case err != nil && (t.err == nil || t.err.Error() != err.Error()):
		t.Log.Warn().Str("part", t.Part).Err(err).Msg("does not work; it is tried until it does")
	}
	t.err = err
}

// Err is the present error, nil while the part works.
func (t *State) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
