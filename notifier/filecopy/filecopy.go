// Package filecopy gives another node of a cluster a copy of a file, over NATS.
//
// The copy is of one instant: the source node writes it to a temporary file first. Then the other
// one requests one piece after the other, with retries, and checks the SHA-256 of all at the end. A
// node serves one copy at a time, and other requests wait; an abandoned one is removed.
package filecopy

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"payledger/notifier/health"
)

const (
	// maxPiece fits into a message of NATS.
	maxPiece = 512 << 10

	// kept is how long an idle copy is kept.
	kept = time.Minute

	// beginTime is how long making a copy may take, pieceTime how long a piece.
	beginTime = 5 * time.Minute
	pieceTime = 5 * time.Second
	tries     = 5
)

// Pattern is that of the names of copies, also of those that a receiver makes. What a
// killed process left of them Serve removes.
const Pattern = "copy-*.tmp"

// The headers of requests and answers. A request without headerCopy asks for a new copy;
// sent again by the same asker, it is answered with the one that was made for it.
const (
	headerAsker  = "Asker"
	headerCopy   = "Copy"
	headerOffset = "Offset"
	headerSize   = "Size"
	headerSum    = "Sum"
	headerError  = "Error"
)

// errBusy: another node gets a copy.
var errBusy = errors.New("another copy is under way")

// How long one waits for the end of another one's copy.
const (
	busyPause = 5 * time.Second
	busyTries = 60
)

// Server gives copies of one file.
type Server struct {
	dir   string // where copies are
	write func(io.Writer) error
	sub   *nats.Subscription
	kept  time.Duration

	mu    sync.Mutex
	given *copied // nil: none
}

// copied is a copy that is being given.
type copied struct {
	id, sum string
	asker   string
	given   bool // to its end
	file    *os.File
	size    int64
	unused  *time.Timer // removes it
}

// Serve serves copies of what write writes to requests on the subject, until Close. The copies are
// in the directory meanwhile.
func Serve(nc *nats.Conn, subject, dir string, write func(io.Writer) error) (*Server, error) {
	s := &Server{dir: dir, write: write, kept: kept}
	left, err := filepath.Glob(filepath.Join(dir, Pattern))
	for _, name := range left {
		err = errors.Join(err, os.Remove(name))
	}
	if err != nil {
		return nil, err
	}
	if s.sub, err = nc.Subscribe(subject, s.answer); err != nil {
		return nil, fmt.Errorf("waiting for nodes that need a copy: %w", err)
	}
	return s, s.sub.SetPendingLimits(16, 1<<16)
}

// Close ends it. What was asked for before is answered first.
func (s *Server) Close() error {
	err := s.sub.Unsubscribe()
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(err, s.end())
}

// end removes the copy; mu is held.
func (s *Server) end() error {
	if s.given == nil {
		return nil
	}
	f := s.given.file
	s.given.unused.Stop()
	s.given = nil
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// forget removes a copy that was not asked for.
func (s *Server) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given != nil && s.given.id == id {
		_ = s.end() // what is left of it, the next start removes
	}
}

func (s *Server) answer(m *nats.Msg) {
	out := nats.NewMsg(m.Reply)
	if err := s.piece(m, out); err != nil {
		out.Header.Set(headerError, err.Error())
	}
	_ = m.RespondMsg(out) // the other one asks again
}

// piece makes the answer to a request.
func (s *Server) piece(m, out *nats.Msg) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := m.Header.Get(headerCopy)
	if id == "" {
		if err := s.begin(m.Header.Get(headerAsker)); err != nil {
			return err
		}
		id = s.given.id
	}
	g := s.given
	if g == nil || g.id != id {
		return errors.New("the copy is not kept any more")
	}
	g.unused.Reset(s.kept)
	offset := int64(0)
	if text := m.Header.Get(headerOffset); text != "" {
		var err error
		if offset, err = strconv.ParseInt(text, 10, 64); err != nil || offset < 0 || offset > g.size {
			return fmt.Errorf("the copy has no byte %q", text)
		}
	}
	out.Data = make([]byte, min(maxPiece, g.size-offset))
	if _, err := g.file.ReadAt(out.Data, offset); err != nil {
		return err
	}
	out.Header.Set(headerCopy, g.id)
	out.Header.Set(headerSize, strconv.FormatInt(g.size, 10))
	out.Header.Set(headerSum, g.sum)
	if offset+int64(len(out.Data)) == g.size {
		g.given = true
		g.unused.Reset(min(s.kept, tries*pieceTime)) // the other one may ask for the end again
	}
	return nil
}

// begin makes a copy; mu is held.
func (s *Server) begin(asker string) error {
	switch {
	case s.given != nil && s.given.asker == asker:
		return nil
	case s.given != nil && !s.given.given:
		return errBusy
	}
	if err := s.end(); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.dir, Pattern)
	if err != nil {
		return err
	}
	sum := sha256.New()
	err = s.write(io.MultiWriter(f, sum))
	info, statErr := f.Stat()
	if err = errors.Join(err, statErr); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	s.given = &copied{id: rand.Text(), sum: hex.EncodeToString(sum.Sum(nil)), asker: asker, file: f, size: info.Size()}
	id := s.given.id
	s.given.unused = time.AfterFunc(s.kept, func() { s.forget(id) })
	return nil
}

// Fetch writes the copy of the node at the subject to the writer that begin returns for its size in
// bytes; after an error what was written is unusable.
func Fetch(ctx context.Context, nc *nats.Conn, subject string, begin func(size int64) (io.Writer, error)) error {
	first, err := start(ctx, nc, subject)
	if err != nil {
		return err
	}
	id := first.Header.Get(headerCopy)
	size, err := strconv.ParseInt(first.Header.Get(headerSize), 10, 64)
	if err != nil || size < 0 {
		return fmt.Errorf("the copy has %q bytes", first.Header.Get(headerSize))
	}
	into, err := begin(size)
	if err != nil {
		return err
	}
	sum := sha256.New()
	to := io.MultiWriter(into, sum)
	m := first
	for at := int64(0); ; {
		if len(m.Data) == 0 && at < size || at+int64(len(m.Data)) > size {
			return fmt.Errorf("the copy ends at byte %d of %d", at+int64(len(m.Data)), size)
		}
		if _, err := to.Write(m.Data); err != nil {
			return err
		}
		if at += int64(len(m.Data)); at == size {
			break
		}
		if m, err = piece(ctx, nc, subject, id, at); err != nil {
			return err
		}
	}
	if hex.EncodeToString(sum.Sum(nil)) != first.Header.Get(headerSum) {
		return errors.New("the copy was damaged on its way")
	}
	return nil
}

// start asks for a copy, and waits while another node gets one.
func start(ctx context.Context, nc *nats.Conn, subject string) (*nats.Msg, error) {
	asker := nats.Header{headerAsker: {rand.Text()}}
	for try := 0; ; try++ {
		m, err := ask(ctx, nc, subject, asker, beginTime)
		if !errors.Is(err, errBusy) || try == busyTries {
			return m, err
		}
		if !health.Pause(ctx, busyPause) {
			return nil, errors.Join(err, ctx.Err())
		}
	}
}

// piece asks for a piece of a copy.
func piece(ctx context.Context, nc *nats.Conn, subject, id string, offset int64) (*nats.Msg, error) {
	return ask(ctx, nc, subject, nats.Header{headerCopy: {id}, headerOffset: {strconv.FormatInt(offset, 10)}}, pieceTime)
}

// ask sends a request, again if no answer comes.
func ask(ctx context.Context, nc *nats.Conn, subject string, header nats.Header, within time.Duration) (m *nats.Msg, err error) {
	q := &nats.Msg{Subject: subject, Header: header}
	for try := range tries {
		if try > 0 && !health.Pause(ctx, time.Second) {
			return nil, ctx.Err()
		}
		m, err = func() (*nats.Msg, error) {
			ctx, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			return nc.RequestMsgWithContext(ctx, q)
		}()
		switch {
		case err != nil:
			continue
		case m.Header.Get(headerError) == errBusy.Error():
			return nil, errBusy
		case m.Header.Get(headerError) != "":
			return nil, fmt.Errorf("the other node answers: %s", m.Header.Get(headerError))
		}
		return m, nil
	}
	return nil, fmt.Errorf("asking another node for a copy: %w", err)
}
