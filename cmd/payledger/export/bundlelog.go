package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/translog"
)

// Log is the log in a bundle, an eventstore.Store that can only be read: where it lies, so that its
// size does not matter. Of a record, Prev is only the position before it.
type Log struct {
	lines  *EventLines
	marks  []mark // every markEach events
	last   eventstore.Position
	signed []byte // the bundle's checkpoint
	stated Manifest
}

// mark is a place between two lines.
type mark struct {
	after  eventstore.Position
	offset int64
	at     time.Time // of the event before it
}

const markEach = 1 << 10

// ErrBundle: a bundle cannot be written to.
var ErrBundle = errors.New("a bundle can only be read")

// CheckedLog checks the bundle and opens its log: the manifest, the positions, and the tree of the
// events against the bundle's checkpoint and those that were given, and details against their events. It does not check that the rules
// lead to the events, which Verify does. notes are about what that does not prove.
func (b *Bundle) CheckedLog(ctx context.Context, given audit.Against, progress func(done, total eventstore.Position)) (_ *Log, note string, err error) {
	in, err := b.Survey(ctx)
	if err != nil {
		return nil, "", OpenFailed(err)
	}
	l := &Log{}
	refuse := func(format string, args ...any) (*Log, string, error) {
		return nil, "", cli.Errorf(cli.ExitVerify, "%s is not as it was exported: %s. \"payledger verify %[1]s\" tells more",
			b.Path, cli.Visible(fmt.Sprintf(format, args...)))
	}
	if faults := ReadManifest(in, &l.stated); len(faults) > 0 {
		return refuse("%s: %s", ManifestFile, faults[0])
	}
	if len(given.Verifiers) == 0 {
		v, err := translog.ParseVerifier(string(in.Small[KeyFile]))
		if err != nil {
			return nil, "", cli.Errorf(cli.ExitDirectory, "%s: %s: %w", b.Path, KeyFile, err)
		}
		given.Verifiers = append(given.Verifiers, v)
		note = "its verifier key came with it: give the one you got from the server's operator with --verifier-key"
	}
	l.signed = in.Small[CheckpointFile]
	var own translog.Checkpoint
	var pinned []translog.Checkpoint
	for _, c := range append(given.Checkpoints, audit.Checkpoint{Name: b.CheckpointName(), Signed: string(l.signed)}) {
		if own, err = given.Open(c, translog.Origin(l.stated.LogID)); err != nil {
			return refuse("%v", err)
		}
		pinned = append(pinned, own)
	}
	if l.lines, err = b.OpenEvents(); err != nil {
		return nil, "", OpenFailed(err)
	}
	err = l.check(ctx, pinned, progress)
	if err == nil && (l.last != own.Size || uint64(l.last) != l.stated.Events) {
		err = fmt.Errorf("it has %d events, its manifest names %d, its checkpoint covers %d", l.last, l.stated.Events, own.Size)
	}
	if err != nil {
		return refuse("%v", errors.Join(err, l.Close()))
	}
	return l, note, nil
}

// check reads all events once, and compares their tree with the checkpoints.
func (l *Log) check(ctx context.Context, pinned []translog.Checkpoint, progress func(done, total eventstore.Position)) error {
	tree, codec := translog.NewStreaming(pinned...), eventstore.NewCodec()
	l.marks = []mark{{}}
	total := eventstore.Position(l.stated.Events)
	for r, err := range l.from(mark{}, stated) {
		_, opaque := r.OpaqueLeaf()
		switch {
		case err != nil:
			return err
		case r.Position != l.last+1:
			return fmt.Errorf("position %d follows %d", r.Position, l.last)
		case opaque && l.stated.Project == "":
			return fmt.Errorf("the event at position %d is opaque, in a bundle that should be whole", r.Position)
		}
		if r.Details != nil { // which the tree does not cover, but the event
			if _, err := codec.Event(r.Stored); err != nil {
				return err
			}
		}
		if err := tree.AppendLeaf(translog.LeafOf(r.Stored)); err != nil {
			return err
		}
		if l.last = r.Position; l.last%markEach == 0 {
			if l.marks = append(l.marks, mark{l.last, r.next, r.At}); ctx.Err() != nil {
				return ctx.Err()
			}
			progress(l.last, max(l.last, total))
		}
	}
	for _, c := range pinned {
		if c.Size > l.last {
			return &translog.TruncatedError{Checkpoint: c, Size: l.last}
		}
	}
	return nil
}

// placed is a record and where the line after its own begins.
type placed struct {
	eventstore.Stored
	next int64
}

// stated reads of a line no more than is hashed: its position, the event's bytes, and its time. What
// is in them is read with what needs it.
func stated(line []byte) (eventstore.Stored, error) {
	if at, body, ok := audit.CutLine(line); ok && len(body) > idEnd {
		if id, ok := domain.ParseID(string(body[idEnd-len(domain.ID{}.String()) : idEnd])); ok {
			return eventstore.Stored{Position: at, Commit: id, At: domain.IDTime(id).Time(), Body: body}, nil
		}
	}
	return audit.Line(line)
}

// idEnd is where the id ends in an event's bytes, which begin with it.
const idEnd = len(`{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C6`)

// from reads the lines after a mark.
func (l *Log) from(m mark, read func([]byte) (eventstore.Stored, error)) iter.Seq2[placed, error] {
	return func(yield func(placed, error) bool) {
		at, in := m, io.NewSectionReader(l.lines, m.offset, l.lines.Size()-m.offset)
		for r, err := range audit.LinesBy(in, func(line []byte) (eventstore.Stored, error) {
			at.offset += int64(len(line))
			return read(line)
		})(m.after) {
			if _, opaque := r.OpaqueLeaf(); opaque {
				r.At = at.at // as far as times go, it belongs to the event before it
			} else if r.Sequence > 1 {
				r.Prev = r.Position - 1
			}
			at.at = r.At
			if !yield(placed{r, at.offset}, err) || err != nil {
				return
			}
		}
	}
}

// LogID names the log.
func (l *Log) LogID() domain.ID { return l.stated.LogID }

// Project is the only one whose events are not opaque; "" for a whole log.
func (l *Log) Project() string { return l.stated.Project }

// Checkpoint is the bundle's own.
func (l *Log) Checkpoint(context.Context) ([]byte, error) { return l.signed, nil }

// Append implements eventstore.Store: nothing can be appended.
func (l *Log) Append(_ context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	return slices.Repeat([]eventstore.Appended{{Err: ErrBundle}}, len(commits))
}

// Load implements eventstore.Store. It reads the whole log.
func (l *Log) Load(ctx context.Context, s eventstore.Stream) iter.Seq2[eventstore.Stored, error] {
	return l.Scan(ctx, 0, eventstore.Filter(s))
}

// LoadAfter implements eventstore.Store.
func (l *Log) LoadAfter(ctx context.Context, s eventstore.Stream, after eventstore.Position) iter.Seq2[eventstore.Stored, error] {
	return l.Scan(ctx, after, eventstore.Filter(s))
}

// Claimed implements eventstore.Store: keys matter to commands, and there are none.
func (l *Log) Claimed(context.Context, string, domain.Digest) (eventstore.Stored, bool, error) {
	return eventstore.Stored{}, false, nil
}

// Scan implements eventstore.Store.
func (l *Log) Scan(ctx context.Context, after eventstore.Position, f eventstore.Filter) iter.Seq2[eventstore.Stored, error] {
	return func(yield func(eventstore.Stored, error) bool) {
		if after >= l.last {
			return
		}
		for r, err := range l.from(l.marks[after/markEach], audit.Line) {
			if err == nil && (r.Position <= after || !f.Matches(r.Stream)) {
				continue
			}
			if err == nil {
				err = ctx.Err()
			}
			if !yield(r.Stored, err) || err != nil {
				return
			}
		}
	}
}

// Follow implements eventstore.Store. Nothing is ever added.
func (l *Log) Follow(ctx context.Context, after eventstore.Position, f eventstore.Filter, fn func(eventstore.Stored) error) error {
	for r, err := range l.Scan(ctx, after, f) {
		if err == nil {
			err = fn(r)
		}
		if err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// Last implements eventstore.Store.
func (l *Log) Last(context.Context) (eventstore.Position, error) { return l.last, nil }

// LastOf implements eventstore.Store.
func (l *Log) LastOf(context.Context, eventstore.Filter) (eventstore.Position, error) {
	return l.last, nil
}

// Close implements eventstore.Store.
func (l *Log) Close() error { return l.lines.Close() }
