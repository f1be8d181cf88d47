package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/salvage"
	"payledger/eventstore/translog"
	"payledger/notifier/bus"
)

// open reads what every source has.
func (s *salvaging) open() error {
	for _, name := range s.Source {
		if err := s.openOne(name); err != nil {
			return err
		}
	}
	if s.NATSURL != "" {
		conn, err := bus.Connect(s.NATSURL, zerolog.Nop())
		if err != nil {
			return exitWith(exitUsage, "--nats-url: %w", err)
		}
		defer conn.Close()
		return s.readEvents("EVENTS of --nats-url", conn)
	}
	return nil
}

// openOne looks at what a source is.
func (s *salvaging) openOne(name string) error {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exitWith(exitDirectory, "%s does not exist", name)
	case err != nil:
		return exitWith(exitDirectory, "%w", err)
	case !info.IsDir():
		return s.openFile(name)
	}
	d := dataDir(name)
	switch {
	case exists(filepath.Join(name, bundleEvents)):
		return s.openBundle(&bundle{path: name})
	case exists(filepath.Join(name, jetStreamDir)):
		return s.openNATS(name)
	case !slices.ContainsFunc(d.files(), exists):
		return exitWith(exitDirectory, "%s is no data directory, no bundle and no directory of NATS: nothing of a log is in it", name)
	}
	return s.openData(d)
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// openData reads a data directory: log, JetStream, checkpoint and key. Its lock
// is held, so that no server changes them meanwhile.
func (s *salvaging) openData(d dataDir) error {
	if exists(d.ledger()) {
		if err := s.openLedger(d.ledger()); err != nil {
			return err
		}
	}
	key, err := d.ownVerifierKey()
	if err != nil {
		s.miss(d.logKey(), err)
	} else if key != "" {
		s.keys = append(s.keys, key)
	}
	if b, err := os.ReadFile(d.checkpoint()); err == nil {
		s.points = append(s.points, signedPoint{name: d.checkpoint(), signed: b})
	} else if !errors.Is(err, fs.ErrNotExist) {
		s.miss(d.checkpoint(), err)
	}
	if exists(filepath.Join(d.nats(), jetStreamDir)) {
		return s.openNATS(d.nats())
	}
	return nil
}

// miss notes a source that gives nothing. The others may give all.
func (s *salvaging) miss(name string, err error) {
	s.unread = append(s.unread, unreadSource{name, err.Error()})
	fmt.Fprintf(s.stderr, "payledger: %s cannot be read: %v\n", name, err)
}

func (s *salvaging) openFile(name string) error {
	b, err := openBundle(name)
	switch {
	case err != nil:
		return err
	case b != nil:
		return s.openBundle(b)
	case isLines(name):
		return s.openLines(name, name, salvage.KindExport, 0, -1)
	}
	return s.openLedger(name)
}

// openShared opens a file for reading and takes the lock that readers share.
func (s *salvaging) openShared(name string) (f *os.File, size int64, err error) {
	if f, err = os.Open(name); err != nil {
		return nil, 0, exitWith(exitDirectory, "%w", err)
	}
	s.closers = append(s.closers, f.Close)
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, 0, exitWith(exitDirectory, "%w", err)
	case !info.Mode().IsRegular():
		return nil, 0, exitWith(exitDirectory, "%s is no regular file", name)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, 0, exitWith(exitInUse, "%s is in use by a running payledger: stop it first", name)
	}
	return f, info.Size(), nil
}

func (s *salvaging) openLedger(name string) error {
	f, size, err := s.openShared(name)
	if err != nil {
		return err
	}
	const unit = 1 << 20
	show := newProgress(s.stderr, "Looking through "+name+" (MiB)")
	source, err := salvage.Ledger(s.ctx, name, f, size, func(done int64) {
		show(eventstore.Position(done/unit), eventstore.Position(size/unit))
	})
	if err != nil {
		return err
	}
	s.add(source)
	return nil
}

func (s *salvaging) add(source *salvage.Source) {
	s.sources = append(s.sources, source)
	if source.Trouble != "" {
		fmt.Fprintf(s.stderr, "payledger: %s: %s\n", source.Name, source.Trouble)
	}
}

// openLines reads the lines of a part of a file, of all of it for size -1.
func (s *salvaging) openLines(name, file string, kind salvage.Kind, from, size int64) error {
	f, all, err := s.openShared(file)
	if err != nil {
		return err
	}
	if size < 0 {
		size = all - from
	}
	source, err := salvage.Lines(s.ctx, name, kind, io.NewSectionReader(f, from, size), size)
	if err != nil {
		return err
	}
	s.add(source)
	return nil
}

// openBundle reads a bundle, whatever its manifest says: the events are judged
// by the checkpoint. One whose directory is damaged is read as lines.
func (s *salvaging) openBundle(b *bundle) error {
	small := make(map[string][]byte)
	from, size, file := int64(0), int64(-1), b.path
	if b.tar {
		f, err := os.Open(b.path)
		if err != nil {
			return exitWith(exitDirectory, "%w", err)
		}
		defer f.Close() //nolint:errcheck // only read
		for in := tar.NewReader(f); ; {
			h, err := in.Next()
			if err != nil {
				break // the end, or damage
			}
			switch name := path.Base(h.Name); name {
			case bundleEvents:
				if at, err := f.Seek(0, io.SeekCurrent); err == nil {
					from, size = at, h.Size
				}
			case bundleCheckpoint, bundleKey:
				if content, err := io.ReadAll(io.LimitReader(in, translog.MaxCheckpoint)); err == nil {
					small[name] = content
				}
			}
		}
		if info, err := f.Stat(); err == nil && size >= 0 {
			size = min(size, info.Size()-from)
		}
	} else {
		file = filepath.Join(b.path, bundleEvents)
		for _, name := range []string{bundleCheckpoint, bundleKey} {
			if content, err := os.ReadFile(filepath.Join(b.path, name)); err == nil && len(content) <= translog.MaxCheckpoint {
				small[name] = content
			}
		}
	}
	if point := small[bundleCheckpoint]; point != nil {
		s.points = append(s.points, signedPoint{name: b.checkpointName(), signed: point})
	}
	if key := small[bundleKey]; key != nil {
		s.brought = append(s.brought, string(key))
	}
	return s.openLines(b.path, file, salvage.KindExport, from, size)
}

// jetStreamDir is where the embedded server keeps its streams.
const jetStreamDir = "jetstream"

// openNATS starts the embedded server on a copy of the directory's EVENTS.
func (s *salvaging) openNATS(name string) error {
	dir := s.work.file(fmt.Sprintf("nats-%d", len(s.sources)))
	found, err := copyEvents(name, dir)
	switch {
	case err != nil && s.ctx.Err() == nil:
		s.miss(name, err)
		return nil
	case err != nil:
		return err
	case !found:
		s.miss(name, errors.New("there is no JetStream stream EVENTS in it"))
		return nil
	}
	server, err := bus.StartServer(bus.ServerConfig{Dir: dir, Log: zerolog.Nop()})
	if err != nil {
		s.miss(name, err)
		return nil
	}
	defer server.Shutdown()
	conn, err := server.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	return s.readEvents(filepath.Join(name, "EVENTS"), conn)
}

// copyEvents copies the files of the stream EVENTS, of whichever account, but
// those of its consumers. A file that cannot be read to its end is copied up to
// there.
func copyEvents(from, to string) (found bool, err error) {
	streams, err := filepath.Glob(filepath.Join(from, jetStreamDir, "*", "streams", bus.EventsStream))
	if err != nil {
		return false, err
	}
	for _, dir := range streams {
		found = true
		err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			below, err := filepath.Rel(from, name)
			switch {
			case err != nil:
				return err
			case e.IsDir() && e.Name() == "obs":
				return fs.SkipDir
			case e.IsDir():
				return os.MkdirAll(filepath.Join(to, below), 0o700)
			case e.Type().IsRegular():
				return copyReadable(name, filepath.Join(to, below))
			}
			return nil
		})
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

func copyReadable(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := createPrivate(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if errors.Is(err, unix.EIO) {
		err = nil
	}
	return errors.Join(err, out.Close())
}

// readEvents writes what EVENTS holds into a file of lines, and reads that. The
// server is not needed any more then.
func (s *salvaging) readEvents(name string, conn *bus.Conn) error {
	file := s.work.file(fmt.Sprintf("events-%d.jsonl", len(s.sources)))
	f, err := createPrivate(file)
	if err != nil {
		return err
	}
	out := newBufferedWriter(f)
	var line []byte
	copied, err := bus.ReadEvents(s.ctx, conn, newProgress(s.stderr, "Reading "+name), func(at eventstore.Position, body []byte) error {
		line = salvage.AppendLine(line[:0], at, body)
		_, err := out.Write(line)
		return err
	})
	if s.ctx.Err() != nil {
		return errors.Join(err, f.Close())
	}
	if err != nil {
		s.miss(name, err)
	}
	if err := errors.Join(out.Flush(), f.Close()); err != nil {
		return err
	}
	if copied.Events == 0 {
		return nil
	}
	if err := s.openLines(name, file, salvage.KindEvents, 0, -1); err != nil {
		return err
	}
	source := s.sources[len(s.sources)-1]
	source.Log = copied.Log
	if lacks := uint64(copied.Last) - copied.Events; lacks > 0 {
		source.Trouble = fmt.Sprintf("%d of its %d events cannot be read", lacks, copied.Last)
		fmt.Fprintf(s.stderr, "payledger: %s: %s\n", name, source.Trouble)
	}
	return nil
}

// checkpoints opens the checkpoints and finds out whose log it is: all that
// name one must name the same.
func (s *salvaging) checkpoints() ([]salvage.Checkpoint, error) {
	q, err := verifyCmd{Checkpoint: s.Checkpoint, VerifierKey: s.VerifierKey}.request("", true)
	if err != nil {
		return nil, err
	}
	for _, p := range q.Checkpoints {
		s.points = append(s.points, signedPoint{name: p.Name, signed: []byte(p.Note)})
	}
	texts := slices.Concat(q.VerifierKeys, s.keys)
	if len(texts) == 0 {
		texts = s.brought
	}
	if s.log, err = salvage.LogID(s.sources); err != nil {
		return nil, exitWith(exitDirectory, "%w: name those of one log only", err)
	}
	for _, text := range texts {
		v, err := translog.ParseVerifier(text)
		if err != nil {
			s.miss("a verifier key", err)
			continue
		}
		s.verifiers = append(s.verifiers, v)
		id, ok := translog.LogOf(v.Origin())
		switch {
		case !ok:
		case s.log.IsZero():
			s.log = id
		case s.log != id:
			return nil, exitWith(exitDirectory, "the verifier key %s is that of another log, this is %s: name the sources of one log only", v.Key(), s.log)
		}
	}
	var all []salvage.Checkpoint
	for _, p := range s.points {
		c, err := openPoint(p.signed, s.verifiers)
		if err != nil {
			s.miss(p.name, err)
			continue
		}
		p.size = c.Size
		s.opened = append(s.opened, p)
		all = append(all, salvage.Checkpoint{Checkpoint: c, Name: p.name})
	}
	if s.log.IsZero() && len(s.sources) > 0 {
		return nil, exitWith(exitDirectory, "no source tells which log this is: give its verifier key with --verifier-key, or a data directory with its log.key")
	}
	if s.log == (domain.ID{}) {
		return nil, exitWith(exitDirectory, "nothing of a log can be read in these sources: nothing was written")
	}
	return all, nil
}

func openPoint(signed []byte, keys []*translog.Verifier) (c translog.Checkpoint, err error) {
	err = errors.New("there is no verifier key to check its signature with: give one with --verifier-key")
	for _, v := range keys {
		if c, err = v.Open(signed); err == nil {
			return c, nil
		}
	}
	return c, err
}
