package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"payledger/notifier/bus"
)

// The directories of a JetStream stream, as nats-server lays them out: beside
// them are files that describe it.
const (
	messagesDir  = "msgs" // its messages, and an index of them
	consumersDir = "obs"  // its consumers, a directory each
	indexFile    = "index.db"
)

// Repair is a way to repair JetStream when work waits without progress, from the
// cheapest to the most costly.
type Repair string

// The repairs.
const (
	RepairRestart Repair = "restart" // JetStream reads its directory again
	repairStream  Repair = "stream"  // a JetStream stream keeps only its messages; EVENTS is deleted and copied again
	RepairEmpty   Repair = "empty"   // a JetStream stream is made anew; the old one is renamed, EVENTS is deleted
	RepairStore   Repair = "store"   // the whole directory is made anew; the old one is renamed, without EVENTS
)

// Repairs are all repairs, the cheapest first.
func Repairs() []Repair { return []Repair{RepairRestart, repairStream, RepairEmpty, RepairStore} }

// keptAside bounds the damaged directories that are kept under another name.
const keptAside = 3

// Repair stops JetStream, repairs its directory and starts it again; in a cluster
// it only starts it again. While the disk takes no writes it only returns an error:
// no repair could help then.
func (s *Server) Repair(how Repair, stream string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if err := s.writable(); err != nil {
		return err
	}
	s.starting.Store(true)
	defer s.starting.Store(false)
	if s.current != nil {
		s.current.Shutdown()
		s.current.WaitForShutdown()
	}
	var err error
	if s.config.Cluster != nil {
		how = RepairRestart
	}
	switch how {
	case repairStream:
		_, err = s.strip(stream)
	case RepairEmpty:
		err = s.setAside(stream)
	case RepairStore:
		err = s.moveAside()
	}
	s.repaired.WithLabelValues(string(how)).Inc()
	return errors.Join(err, s.startAnew())
}

// writable checks that the disk takes writes.
func (s *Server) writable() error {
	const (
		size = 1 << 20 // JetStream writes no less at once when much is published
		slow = 5 * time.Second
	)
	began := time.Now()
	err := os.MkdirAll(s.config.Dir, 0o700)
	if err == nil {
		err = tryWriting(filepath.Join(s.config.Dir, "probe.tmp"), size)
	}
	if err != nil {
		return fmt.Errorf("the disk of the embedded NATS server takes no writes; make room on it, or mend it, and all goes on by itself: %w", err)
	}
	if took := time.Since(began); took > slow {
		return fmt.Errorf("the disk of the embedded NATS server takes %v for a write of 1 MiB: nothing is repaired while it is so slow", took.Round(time.Second))
	}
	return nil
}

func tryWriting(name string, size int) (err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(name)) }()
	if _, err := f.Write(make([]byte, size)); err != nil {
		return err
	}
	return f.Sync()
}

func (s *Server) streamDir(elem ...string) string {
	return filepath.Join(append([]string{s.config.Dir, natsserver.JetStreamStoreDir, AccountLedger, "streams"}, elem...)...)
}

// strip deletes all files of a JetStream stream but its messages, which JetStream
// reads when the stream is made again. The server must not have loaded it. The
// state of its consumers would come back too, and need not be of these messages.
// some: there were files to delete.
func (s *Server) strip(stream string) (some bool, err error) {
	if stream == bus.EventsStream {
		return true, s.setAside(stream) // copying it anew shows how far it is, reading it does not
	}
	parts, err := os.ReadDir(s.streamDir(stream))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil { // it is no directory
		return true, os.RemoveAll(s.streamDir(stream))
	}
	var errs []error
	for _, part := range parts {
		if part.Name() != messagesDir || !part.IsDir() {
			some = true
			errs = append(errs, os.RemoveAll(s.streamDir(stream, part.Name())))
		}
	}
	return some, errors.Join(append(errs, os.RemoveAll(s.streamDir(stream, messagesDir, indexFile)))...)
}

// ForgetConsumer implements bus.Embedded: it deletes the files of a consumer that
// the server did not load. In a cluster another server may know it.
func (s *Server) ForgetConsumer(stream, consumer string) (lost bool, err error) {
	if s.config.Cluster != nil {
		return false, nil
	}
	dir := s.streamDir(stream, consumersDir, consumer)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return true, os.RemoveAll(dir)
}

// setAside takes a JetStream stream out of JetStream's directory. The server
// is stopped.
func (s *Server) setAside(stream string) error {
	if stream == bus.EventsStream {
		return os.RemoveAll(s.streamDir(stream)) // the log is the original
	}
	err := os.Rename(s.streamDir(stream), s.asideName(stream))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s.pruneAside()
	return err
}

// moveAside renames JetStream's directory, so that no signal in it is lost. The
// server is stopped.
func (s *Server) moveAside() error {
	_ = os.RemoveAll(s.streamDir(bus.EventsStream)) // the log is the original; if some stays, it only takes room
	err := os.Rename(filepath.Join(s.config.Dir, natsserver.JetStreamStoreDir), s.asideName(natsserver.JetStreamStoreDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("moving the directory of NATS aside: %w", err)
	}
	s.pruneAside()
	return nil
}

// Aside stands in the name of what was moved aside.
const Aside = "-damaged-"

func (s *Server) asideName(what string) string {
	return filepath.Join(s.config.Dir, what+Aside+time.Now().UTC().Format("20060102T150405.000"))
}

// pruneAside keeps the newest of what was moved aside.
func (s *Server) pruneAside() {
	all, err := filepath.Glob(filepath.Join(s.config.Dir, "*"+Aside+"*"))
	if err != nil || len(all) <= keptAside {
		return
	}
	when := func(name string) string { return name[strings.LastIndex(name, Aside):] }
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(when(a), when(b)) })
	for _, old := range all[:len(all)-keptAside] {
		s.config.Log.Warn().Str("directory", old).Err(os.RemoveAll(old)).Msg("the oldest damaged directory of NATS that was kept aside is deleted")
	}
}
