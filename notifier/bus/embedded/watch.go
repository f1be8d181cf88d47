package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"payledger/notifier/bus"
	"payledger/notifier/health"
)

// storageWatch notices when JetStream's directory, or a part of it, is
// deleted or replaced under the running server. The server itself does not:
// it goes on with the files it holds open, and loses all of it at its end.
type storageWatch struct {
	dir     string
	seen    map[string]os.FileInfo // directories that stay as long as the server runs
	missing map[string]bool        // JetStream streams without their directory at the last look: they are remade at times
}

func newStorageWatch(dir string) *storageWatch {
	return &storageWatch{dir: dir, seen: make(map[string]os.FileInfo)}
}

// look says what is wrong, empty if nothing is. streams are those that the server
// serves.
func (w *storageWatch) look(streams []string) string {
	path := w.dir
	for _, part := range []string{natsserver.JetStreamStoreDir, AccountLedger, "streams"} {
		path = filepath.Join(path, part)
		now, err := os.Stat(path)
		before, known := w.seen[path]
		switch {
		case known && (err != nil || !os.SameFile(before, now)):
			return "the directory " + path + " was deleted or replaced"
		case err == nil:
			w.seen[path] = now
		}
	}
	missing := make(map[string]bool)
	for _, name := range streams {
		dir := filepath.Join(path, name, messagesDir)
		if _, err := os.Stat(dir); err == nil {
			continue
		}
		if w.missing[name] {
			return "the directory " + dir + " was deleted"
		}
		missing[name] = true
	}
	w.missing = missing
	return ""
}

// Run watches the server until ctx ends and starts it again when JetStream
// has stopped, writes a JetStream stream no more, or its directory was deleted
// or replaced under it. Connections made by Connect reconnect by themselves.
func (s *Server) Run(ctx context.Context) error {
	const wellAgain = 60 // looks; a fault that comes back before is met later each time
	retry, well := health.Backoff{First: s.watchEvery, Max: 30 * s.watchEvery}, 0
	for health.Pause(ctx, s.watchEvery) {
		fault := s.fault()
		if fault == nil {
			s.trouble.Set(nil)
			if well++; well >= wellAgain {
				retry.Reset()
			}
			continue
		}
		well = 0
		if errors.Is(fault, ErrClosed) {
			return nil
		}
		err := s.Repair(RepairRestart, "")
		if err != nil {
			s.trouble.Set(fmt.Errorf("%w: %w", fault, err))
		} else {
			s.config.Log.Error().Err(fault).Msg("the embedded NATS server was started again")
		}
		if !retry.Wait(ctx) {
			break
		}
	}
	return nil
}

// Err says why the server does not work just now, nil when it does.
func (s *Server) Err() error { return s.trouble.Err() }

// fault says why the server has to be started again, nil if it need not be.
func (s *Server) fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.current == nil || !s.current.Running() || !s.current.JetStreamEnabled() {
		return errors.New("JetStream has stopped")
	}
	if reason := s.storage.look(s.served()); reason != "" {
		return errors.New(reason)
	}
	if unwritten := s.ill(isWriteError); len(unwritten) > 0 {
		// After a write that failed it refuses all others until it is started anew.
		return fmt.Errorf("JetStream takes no more messages for %s: a write to the disk failed", strings.Join(unwritten, " and "))
	}
	return nil
}

// served lists our JetStream streams that the server serves.
func (s *Server) served() (streams []string) {
	all, err := s.current.Jsz(&natsserver.JSzOptions{Account: AccountLedger, Streams: true})
	if err != nil {
		return nil
	}
	for _, account := range all.AccountDetails {
		for _, stream := range account.Streams {
			if slices.Contains(bus.OurStreams(), stream.Name) {
				streams = append(streams, stream.Name)
			}
		}
	}
	return streams
}

// ill lists our JetStream streams that the server reports as unhealthy.
func (s *Server) ill(how func(complaint string) bool) (streams []string) {
	health := s.current.Healthz(&natsserver.HealthzOptions{Details: true})
	for _, e := range health.Errors {
		if e.Type == natsserver.HealthzErrorStream && e.Account == AccountLedger &&
			slices.Contains(bus.OurStreams(), e.Stream) && how(e.Error) {
			streams = append(streams, e.Stream)
		}
	}
	return streams
}

func isWriteError(complaint string) bool { return strings.Contains(complaint, "write error") }

// stripLost strips the JetStream streams that the server could not load, so that
// only their messages come back when they are made again. On a disk that takes no
// writes it leaves them alone: they may be sound.
func (s *Server) stripLost() {
	lost := s.ill(func(complaint string) bool { return !isWriteError(complaint) })
	for _, stream := range lost {
		if err := s.writable(); err != nil {
			s.trouble.Set(err)
			return
		}
		some, err := s.strip(stream)
		if some || err != nil {
			s.config.Log.Warn().Str("stream", stream).Err(err).
				Msg("the description of a JetStream stream is damaged; it is made anew, with the signals in it that can be read")
			s.repaired.WithLabelValues(string(repairStream)).Inc()
		}
	}
}
