package replica

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/notifier/delivery/store"
	"payledger/notifier/health"
)

// StreamName is the name of LANES, Subject where it takes its messages.
const (
	StreamName = "LANES"
	Subject    = "payledger.lanes"

	// maxBytes bounds LANES.
	maxBytes = 256 << 20

	publishTime = 2 * time.Second
	retryAfter  = 200 * time.Millisecond

	// sharedWithin is how long it is tried to publish an entry.
	sharedWithin = 10 * time.Second

	feedBeat = 500 * time.Millisecond
	maxAhead = 64 // messages that are asked for ahead
)

// metaLog is the key of LANES' metadata with the id of the event log.
const metaLog = "payledger-log"

var (
	// ErrLost: another node leads, or LANES did not answer in time.
	ErrLost = errors.New("this node does not lead the lanes any more")

	// ErrBehind: LANES does not follow from what the file has. It has to be replaced by
	// a copy of that of the node that leads.
	ErrBehind = errors.New("the lane file does not have what LANES follows from")

	// ErrMissing: there is no LANES, and it was not to be made.
	ErrMissing = errors.New("there is no LANES yet")

	// ErrForeign: LANES is that of another event log.
	ErrForeign = errors.New("LANES belongs to another event log")
)

// Lanes is a node's part in LANES. Its methods are for one goroutine.
type Lanes struct {
	config Config
	stream jetstream.Stream
	file   *store.File
	seen   store.Place // of the last message that was read or published
}

// Config configures a node's part.
type Config struct {
	JetStream jetstream.JetStream
	LogID     domain.ID   // of the event log
	Replicas  int         // of LANES, when it is made
	Random    [8]byte     // another one for each start of each node
	Report    func(error) // is told of errors that are tried again

	// Ending reports that the node is to lead no longer: then an entry that LANES does
	// not take at once is given up (ErrLost). nil: it never is. From any goroutine.
	Ending func() bool

	// Forgotten is for how long LANES must end before the file does until it is made
	// anew. A server that was deposed tells where LANES ended before. 0: 15 s.
	Forgotten time.Duration
}

// Open finds LANES or, if found, makes it: then it follows from what the file has.
func Open(ctx context.Context, c Config, f *store.File, found bool) (*Lanes, error) {
	stream, err := c.JetStream.Stream(ctx, StreamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if !found {
			return nil, ErrMissing
		}
		stream, err = create(ctx, c, f)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the JetStream stream %s: %w", StreamName, err)
	}
	if of := stream.CachedInfo().Config.Metadata[metaLog]; of != c.LogID.String() {
		return nil, fmt.Errorf("%w: %q, this is %s", ErrForeign, of, c.LogID)
	}
	return &Lanes{config: c, stream: stream, file: f}, nil
}

// create makes LANES. A file that is not replicated yet gets a starting place with a random
// sum, so that no other file can be mistaken for a copy of it.
func create(ctx context.Context, c Config, f *store.File) (jetstream.Stream, error) {
	at, err := f.Shared()
	if err == nil && at == (store.Place{}) {
		at = store.Place{Number: 1, Sum: c.Random}
		err = f.Apply(at, nil)
	}
	if err != nil {
		return nil, err
	}
	return c.JetStream.CreateStream(ctx, jetstream.StreamConfig{
		Name: StreamName, Description: "The newest changes of payledger's webhook deliveries, until every node has them.",
		Subjects: []string{Subject}, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Replicas: c.Replicas,
		MaxMsgs: -1, MaxBytes: maxBytes, MaxMsgsPerSubject: -1, MaxMsgSize: -1, MaxConsumers: -1,
		Discard: jetstream.DiscardOld, DenyDelete: true, FirstSeq: at.Number + 1,
		Metadata: map[string]string{metaLog: c.LogID.String()},
	})
}

// Follow writes the entries of LANES into the file until ctx ends. Errors: ErrBehind,
// those of the file.
func (l *Lanes) Follow(ctx context.Context) error {
	for {
		err := l.read(ctx, func() bool { return false })
		if !errors.As(err, new(*passingError)) {
			return err
		}
		if !l.again(ctx, err) {
			return ctx.Err()
		}
	}
}

// passingError is one of JetStream's, which may pass.
type passingError struct{ err error }

func (e *passingError) Error() string { return "LANES: " + e.err.Error() }
func (e *passingError) Unwrap() error { return e.err }

// again reports an error and waits before the next try.
func (l *Lanes) again(ctx context.Context, err error) bool {
	if ctx.Err() == nil {
		l.config.Report(err)
	}
	return health.Pause(ctx, retryAfter)
}

// bounds are the sequences of the first and last message of LANES.
func (l *Lanes) bounds(ctx context.Context) (first, last uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	info, err := l.stream.Info(ctx)
	if err != nil {
		return 0, 0, &passingError{err}
	}
	return info.State.FirstSeq, info.State.LastSeq, nil
}

// read reads LANES, from what the file has on, until enough reports true.
func (l *Lanes) read(ctx context.Context, enough func() bool) error {
	had, err := l.file.Shared()
	if err != nil {
		return err
	}
	l.seen = had
	from, to, err := l.bounds(ctx)
	switch {
	case err != nil:
		return err
	case had.Number == 0 || from > had.Number+1:
		return fmt.Errorf("%w: it has entry %d, LANES begins with message %d", ErrBehind, had.Number, from)
	case to < had.Number:
		return &passingError{fmt.Errorf("it ends with message %d, and the file has entry %d", to, had.Number)}
	case enough():
		return nil
	}
	consumer, err := l.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: had.Number + 1,
	})
	if err != nil {
		return &passingError{err}
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(maxAhead), jetstream.PullHeartbeat(feedBeat))
	if err != nil {
		return &passingError{err}
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	var entry joining
	for !enough() {
		// An ordered consumer that is being made anew misses a Stop.
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return &passingError{err}
		}
		if err := l.take(m, &entry); err != nil {
			return err
		}
	}
	return nil
}

// take writes the entry that a message completes.
func (l *Lanes) take(m jetstream.Msg, to *joining) error {
	meta, err := m.Metadata()
	if err != nil {
		return &passingError{err}
	}
	number := meta.Sequence.Stream
	if number != l.seen.Number+1 {
		return &passingError{fmt.Errorf("message %d came after message %d", number, l.seen.Number)}
	}
	part, err := decode(m.Data())
	if err != nil {
		return fmt.Errorf("message %d of LANES: %w", number, err)
	}
	if part.before != l.seen.Sum {
		return fmt.Errorf("%w: message %d follows another one", ErrBehind, number)
	}
	l.seen = store.Place{Number: number, Sum: hash(m.Data())}
	whole, done, err := to.join(part)
	if err != nil {
		return fmt.Errorf("message %d of LANES: %w", number, err)
	}
	if done {
		return l.file.Apply(l.seen, whole)
	}
	return nil
}

// Lead brings the file to LANES' end, ends the part of whoever led before, and lets
// each change of the file be shared from then on. When that fails it fails with
// ErrLost, for ever. Errors are those of Follow. lost: no node has a file that LANES
// follows from; if this one shares nothing yet, LANES begins anew with it. Then the file
// does not have the requests that may be under way, and says so before LANES follows from
// it: every copy of it says so too.
func (l *Lanes) Lead(ctx context.Context, lost bool) error {
	if lost {
		if err := l.file.Update(0, func(x *store.Tx) error { x.SetRequestsUnknown(true); return nil }); err != nil {
			return err
		}
	}
	forgot := time.Time{} // when LANES was first seen to end before the file
	for {
		err := l.lead(ctx, lost, &forgot)
		if err == nil {
			x := &leading{l, nil}
			l.file.Share(func(entry []byte) (store.Place, error) {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedWithin)
				defer cancel()
				return x.share(ctx, entry)
			})
			return nil
		}
		if !errors.As(err, new(*passingError)) {
			return err
		}
		if !l.again(ctx, err) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

func (l *Lanes) lead(ctx context.Context, lost bool, forgot *time.Time) error {
	_, end, err := l.bounds(ctx)
	if err != nil {
		return err
	}
	had, err := l.file.Shared()
	if err != nil {
		return err
	}
	switch {
	case lost && had == (store.Place{}):
		err = l.resetStream(ctx, end)
	case end >= had.Number:
		*forgot = time.Time{}
		err = l.read(ctx, func() bool { return l.seen.Number >= end })
	default:
		err = l.anew(ctx, had, end, forgot)
	}
	if err != nil {
		return err
	}
	m := message{flags: first | last, nonce: l.config.Random}
	if err := l.publish(ctx, m); err != nil {
		return &passingError{err}
	}
	return l.file.Apply(l.seen, nil)
}

// anew lets LANES begin behind the file, whose entries it has forgotten. For some time
// that may only seem so: a server that was deposed tells where LANES ended before.
func (l *Lanes) anew(ctx context.Context, had store.Place, end uint64, forgot *time.Time) error {
	if forgot.IsZero() {
		*forgot = time.Now()
	}
	why := fmt.Errorf("it ends with message %d, and the file has entry %d", end, had.Number)
	if time.Since(*forgot) < cmp.Or(l.config.Forgotten, 15*time.Second) {
		return &passingError{why}
	}
	l.config.Report(fmt.Errorf("LANES has forgotten entries and begins anew: %w", why))
	return l.beginBehind(ctx, had)
}

// resetStream purges LANES and starts it with this file's state. One sequence number is
// skipped, so that no older file can be mistaken for a current one.
func (l *Lanes) resetStream(ctx context.Context, end uint64) error {
	at := store.Place{Number: end + 1, Sum: l.config.Random}
	if err := l.beginBehind(ctx, at); err != nil {
		return err
	}
	return l.file.Apply(at, nil)
}

// beginBehind lets the first message of LANES be the one behind a place.
func (l *Lanes) beginBehind(ctx context.Context, at store.Place) error {
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	if err := l.stream.Purge(ctx, jetstream.WithPurgeSequence(at.Number+1)); err != nil {
		return &passingError{err}
	}
	l.seen = at
	return nil
}

// publish publishes a message behind the last one that was seen. Any error leaves it
// unknown.
func (l *Lanes) publish(ctx context.Context, m message) error {
	m.before = l.seen.Sum
	b := m.encode()
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	ack, err := l.config.JetStream.Publish(ctx, Subject, b, jetstream.WithExpectStream(StreamName),
		jetstream.WithExpectLastSequence(l.seen.Number), jetstream.WithRetryAttempts(0))
	switch {
	case err != nil:
		return fmt.Errorf("publishing to LANES: %w", err)
	case ack.Stream != StreamName, ack.Sequence != l.seen.Number+1, ack.Duplicate:
		return fmt.Errorf("LANES answered with sequence %d of %s", ack.Sequence, ack.Stream)
	}
	l.seen = store.Place{Number: ack.Sequence, Sum: hash(b)}
	return nil
}

// leading is the part of the node that leads.
type leading struct {
	*Lanes
	lost error
}

// share shares an entry.
func (x *leading) share(ctx context.Context, entry []byte) (store.Place, error) {
	for _, m := range split(x.config.Random, entry) {
		if x.lost == nil {
			x.lost = x.insist(ctx, m)
		}
	}
	return x.seen, x.lost
}

// insist publishes a message until it is known what LANES has in its place.
func (x *leading) insist(ctx context.Context, m message) error {
	for {
		err := x.publish(ctx, m)
		if err == nil {
			return nil
		}
		// Whether LANES took it is unknown, whatever the error: a server that was
		// deposed counts what was never accepted.
		number := x.seen.Number + 1
		m.before = x.seen.Sum
		switch taken, found := x.at(ctx, number); {
		case found && bytes.Equal(taken, m.encode()):
			x.seen = store.Place{Number: number, Sum: hash(taken)}
			return nil
		case found:
			return fmt.Errorf("%w: another one does", ErrLost)
		}
		if (x.config.Ending != nil && x.config.Ending()) || !x.again(ctx, err) {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
	}
}

// at is the message of a sequence.
func (l *Lanes) at(ctx context.Context, sequence uint64) ([]byte, bool) {
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	m, err := l.stream.GetMsg(ctx, sequence)
	if err != nil {
		return nil, false
	}
	return m.Data, true
}
