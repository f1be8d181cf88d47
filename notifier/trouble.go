package notifier

import (
	"sync"

	"github.com/rs/zerolog"
)

// trouble is what keeps a part from working just now. It is logged when it
// begins, changes or ends, not at each try. Safe for concurrent use.
type trouble struct {
	log  zerolog.Logger
	part string

	mu  sync.Mutex
	err error
}

// set notes the present state; nil: all is well.
func (t *trouble) set(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil && t.err != nil:
		t.log.Info().Str("part", t.part).Msg("works again")
	case err != nil && (t.err == nil || t.err.Error() != err.Error()):
		t.log.Warn().Str("part", t.part).Err(err).Msg("does not work; it is tried until it does")
	}
	t.err = err
}

// Err is the present trouble, nil if there is none.
func (t *trouble) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
