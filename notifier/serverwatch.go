package notifier

import (
	"context"
	"os"
	"path/filepath"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// storageWatch notices when JetStream's directory, or a part of it, is
// deleted or replaced under the running server. The server itself does not:
// it goes on with the files it holds open, and loses all of it at its end.
type storageWatch struct {
	dir     string
	seen    map[string]os.FileInfo // directories that stay as long as the server runs
	streams map[string]bool        // directories of JetStream streams, which are remade at times: missing at the last look
}

func newStorageWatch(dir string) *storageWatch {
	return &storageWatch{dir: dir, seen: make(map[string]os.FileInfo), streams: make(map[string]bool)}
}

// look says what is wrong, empty if nothing is.
func (w *storageWatch) look() string {
	path := w.dir
	for _, part := range []string{natsserver.JetStreamStoreDir, accountLedger, "streams"} {
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
	for _, name := range []string{EventsStream, SignalsStream, ParkedStream} {
		_, err := os.Stat(filepath.Join(path, name))
		missing, known := w.streams[name]
		if known && missing && err != nil {
			return "the directory " + filepath.Join(path, name) + " was deleted"
		}
		if known || err == nil {
			w.streams[name] = err != nil
		}
	}
	return ""
}

// Run watches the server until ctx ends and starts it again when JetStream
// has stopped or its directory was deleted or replaced under it. Connections
// made by Connect reconnect by themselves.
func (s *Server) Run(ctx context.Context) error {
	tick := time.NewTicker(s.watchEvery)
	defer tick.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		reason := s.trouble()
		if reason == "" {
			failed = false
			continue
		}
		if !failed {
			s.config.Log.Error().Str("reason", reason).Msg("the embedded NATS server is started again")
		}
		if err := s.restart(); err != nil && !failed {
			s.config.Log.Error().Err(err).Msg("the embedded NATS server does not start; it is tried until it does")
			failed = true
		}
	}
}

func (s *Server) trouble() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ""
	}
	if s.current == nil || !s.current.Running() || !s.current.JetStreamEnabled() {
		return "JetStream has stopped"
	}
	return s.storage.look()
}

func (s *Server) restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.current != nil {
		s.current.Shutdown()
		s.current.WaitForShutdown()
	}
	return s.startAnew()
}
