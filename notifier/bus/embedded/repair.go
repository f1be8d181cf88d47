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

// The directories of a JetStream stream, as nats-server lays them out.
const (
	messagesDir  = "msgs" // its messages
	consumersDir = "obs"  // its consumers, a directory each
)

// The repairs, as the metric counts them.
const (
	repairRestart = "restart" // JetStream reads its directory again
	repairAside   = "aside"   // a directory was moved aside, or deleted if the log has it all
)

// keptAside bounds the quarantined directories.
const keptAside = 3

// errUnwritable: the disk takes no writes, so no repair can help.
var errUnwritable = errors.New("the disk of the embedded NATS server takes no writes; free some space, or repair it, and the server continues by itself")

// Repair starts JetStream again. If a JetStream stream is named, its directory is moved
// aside before, so that the stream is created again; not in a cluster. While the disk
// takes no writes Repair only returns an error.
func (s *Server) Repair(aside string) error {
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
	if !s.end(false) {
		return errors.New("the embedded NATS server has to start again, and still waits for another node")
	}
	var err error
	if aside != "" && s.config.Cluster == nil {
		err = s.moveAside(s.streamDir(aside))
	} else {
		s.repaired.WithLabelValues(repairRestart).Inc()
	}
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
		return fmt.Errorf("%w: %w", errUnwritable, err)
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

func (s *Server) storeDir() string { return filepath.Join(s.config.Dir, natsserver.JetStreamStoreDir) }

func (s *Server) streamDir(elem ...string) string {
	return filepath.Join(append([]string{s.storeDir(), AccountLedger, "streams"}, elem...)...)
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

// Aside is part of the name of a quarantined directory.
const Aside = "-damaged-"

// moveAside quarantines JetStream's directory, or that of a stream in it: it is renamed, so that
// the signals in it are left for the operator. EVENTS is deleted instead, since the log is the
// original. The server has not loaded the directory.
func (s *Server) moveAside(dir string) error {
	s.repaired.WithLabelValues(repairAside).Inc()
	events := s.streamDir(bus.EventsStream)
	if dir == events {
		return os.RemoveAll(events)
	}
	if dir == s.storeDir() {
		_ = os.RemoveAll(events) // if some stays, it only takes space
	}
	err := os.Rename(dir, filepath.Join(s.config.Dir, filepath.Base(dir)+Aside+time.Now().UTC().Format("20060102T150405.000")))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("moving a directory of NATS aside: %w", err)
	}
	s.pruneAside()
	return nil
}

// pruneAside deletes all but the newest quarantined directories.
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
