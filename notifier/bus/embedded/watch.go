package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"payledger/notifier/bus"
	"payledger/notifier/health"
)

// storageWatch notices when JetStream's directory, or a part of it, is deleted or replaced under
// the running server. The server itself does not: it continues with its open files, and loses them
// when it stops.
type storageWatch struct {
	streams os.FileInfo     // the directory of the JetStream streams; nil: it was not there yet
	missing map[string]bool // JetStream streams without their directory at the last check: they may be being recreated
}

// check returns what is wrong with the storage of the streams that the server serves, nil if
// nothing is.
func (s *Server) check(served []string) error {
	now, err := os.Stat(s.streamDir())
	if before := s.storage.streams; before != nil && (err != nil || !os.SameFile(before, now)) {
		return fmt.Errorf("the directory %s was deleted or replaced", s.streamDir())
	}
	s.storage.streams = now
	missing := make(map[string]bool)
	for _, name := range served {
		dir := s.streamDir(name, messagesDir)
		if _, err := os.Stat(dir); err == nil {
			continue
		}
		if s.storage.missing[name] {
			return fmt.Errorf("the directory %s was deleted", dir)
		}
		missing[name] = true
	}
	s.storage.missing = missing
	return nil
}

// Run watches the server until ctx ends and starts it again when JetStream
// has stopped, writes a JetStream stream no more, or its directory was deleted
// or replaced under it. Connections made by Connect reconnect by themselves.
//
// A disk that takes no writes is tried again at each check, so that the server continues soon after
// there is space. Pauses grow only between starts, which cut off all clients.
func (s *Server) Run(ctx context.Context) error {
	const wellAgain = 60 // checks; a fault that comes back before is repaired later each time
	retry, well := health.Backoff{First: s.watchEvery, Max: 10 * s.watchEvery}, 0
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
		err := s.Repair("")
		if err != nil {
			s.trouble.Set(fmt.Errorf("%w: %w", fault, err))
		} else {
			s.config.Log.Error().Err(fault).Msg("the embedded NATS server was started again")
		}
		if !errors.Is(err, errUnwritable) && !retry.Wait(ctx) {
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
	if err := s.check(s.served()); err != nil {
		return err
	}
	if s.unread {
		return errors.New("JetStream could not read its directory while the disk took no writes")
	}
	if streams := s.ill(unwritten); len(streams) > 0 {
		// After a write that failed it refuses all others until it is restarted.
		return fmt.Errorf("JetStream takes no more messages for %s: a write to the disk failed", strings.Join(streams, " and "))
	}
	return nil
}

// watched reports whether a JetStream stream is one that is repaired.
func watched(stream string) bool {
	return stream == bus.CheckpointsStream || slices.Contains(bus.OurStreams(), stream)
}

// served lists our JetStream streams that the server serves.
func (s *Server) served() (streams []string) {
	all, err := s.current.Jsz(&natsserver.JSzOptions{Account: AccountLedger, Streams: true})
	if err != nil {
		return nil
	}
	for _, account := range all.AccountDetails {
		for _, stream := range account.Streams {
			if watched(stream.Name) {
				streams = append(streams, stream.Name)
			}
		}
	}
	return streams
}

// What the server says of a JetStream stream that is unhealthy.
const (
	unwritten = "write error"
	unloaded  = "could not be recovered"
)

// ill lists our JetStream streams of which the server says so.
func (s *Server) ill(so string) (streams []string) {
	health := s.current.Healthz(&natsserver.HealthzOptions{Details: true})
	for _, e := range health.Errors {
		if e.Type == natsserver.HealthzErrorStream && e.Account == AccountLedger && watched(e.Stream) && strings.Contains(e.Error, so) {
			streams = append(streams, e.Stream)
		}
	}
	return streams
}

// leaveUnloaded moves the JetStream streams aside that the server could not load. On a
// disk that takes no writes it leaves them for the next start: they may be sound.
func (s *Server) leaveUnloaded() {
	streams := s.ill(unloaded)
	s.unread = len(streams) > 0 && s.writable() != nil
	if s.unread {
		return
	}
	for _, stream := range streams {
		err := s.moveAside(s.streamDir(stream))
		s.config.Log.Warn().Str("stream", stream).Err(err).
			Msg("a JetStream stream is damaged; it is recreated, and the old one is quarantined unless the log has it all")
	}
}
