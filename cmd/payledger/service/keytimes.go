package service

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/notifier/health"
)

// keyTimes records when each API key was used last. Its file is a JSON object of key ids and
// milliseconds since 1970. It is not authoritative: without it the times are unknown, and a crash
// loses the last minute. It is not in the log, because an event for each key and hour would make
// projects' streams long, which are read whole for each change of a project.
type keyTimes struct {
	path  string
	log   zerolog.Logger
	saved []byte // what is in the file; touched by one flush at a time

	mu    sync.Mutex
	times map[string]int64 // by key id
}

// flushEvery is how often times of use are written.
const flushEvery = time.Minute

// openKeyTimes reads the file. One that cannot be read is replaced.
func openKeyTimes(path string, log zerolog.Logger) *keyTimes {
	k := &keyTimes{path: path, log: log, times: make(map[string]int64)}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return k
	}
	var all map[string]int64
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		log.Warn().Err(err).Str("file", path).Msg("when API keys were used last is forgotten, because the file cannot be read")
		return k
	}
	maps.Copy(k.times, all)
	k.saved = b
	return k
}

// Use notes that a key was used. It is called for every request, and is exact to a second. A time that
// is more than a minute ahead is of a clock that was set back since: no request comes so late.
func (k *keyTimes) Use(key string, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if ms := now.UnixMilli(); ms-k.times[key] >= 1000 || k.times[key]-ms > flushEvery.Milliseconds() {
		k.times[key] = ms
	}
}

// LastUse is when a key was used last; false when that is not known to have happened.
func (k *keyTimes) LastUse(key string) (domain.Instant, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at, ok := k.times[key]
	return domain.Instant(at), ok
}

// Run writes times of use to the file about once a minute until ctx ends, and then once
// more.
func (k *keyTimes) Run(ctx context.Context) error {
	for more := true; more; {
		more = health.Pause(ctx, flushEvery)
		if err := k.flush(); err != nil {
			k.log.Warn().Err(err).Msg("when API keys were used last could not be written")
		}
	}
	return nil
}

// flush writes the file if a time has changed.
func (k *keyTimes) flush() error {
	k.mu.Lock()
	all := maps.Clone(k.times)
	k.mu.Unlock()
	b, err := json.Marshal(all, json.Deterministic(true))
	if err != nil || len(all) == 0 || bytes.Equal(b, k.saved) {
		return err
	}
	if err := datadir.WriteFileSynced(k.path, b); err != nil {
		return err
	}
	k.saved = b
	return nil
}
