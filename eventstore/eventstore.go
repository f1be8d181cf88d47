// Package eventstore keeps the event log, the only truth of the ledger.
//
// A Store appends records to streams under optimistic concurrency and numbers
// all of them with one position, from 1 and without gaps. When Append returns, the
// records are on disk. Three stores exist: bolt, a file; replog, which keeps it on three
// nodes; and memory, for tests and fault injection. All pass storetest.
//
// The Codec turns domain events into the bytes that are stored and back;
// Execute runs a command against a stream.
package eventstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"payledger/domain"
)

// Position is a record's number in the log's total order, from 1. It is also the
// record's sequence in the JetStream stream EVENTS.
type Position uint64

// Stream names one aggregate's records.
type Stream struct {
	Project string
	Kind    string // KindPayment, KindProject, KindInstallation, KindDeliveries, KindSettlement or KindPayouts
	ID      string
}

// The kinds of streams.
const (
	KindPayment = "payment"
	KindProject = "project"

	KindInstallation = "installation"
	KindDeliveries   = "deliveries"
	KindSettlement   = "settlement"
	KindPayouts      = "payouts"

	// KindOpaque is no kind of stream: see OpaqueRecord.
	KindOpaque = "opaque"
)

// PaymentStream names the stream of a payment and its refunds.
func PaymentStream(project string, id domain.ID) Stream {
	return Stream{Project: project, Kind: KindPayment, ID: id.String()}
}

// ProjectStream names the stream of a project.
func ProjectStream(project string) Stream {
	return Stream{Project: project, Kind: KindProject, ID: project}
}

// InstallationStream names the stream of what operators did to the program as a
// whole. There is one in each log.
func InstallationStream() Stream {
	return Stream{Project: KindInstallation, Kind: KindInstallation, ID: KindInstallation}
}

// DeliveriesStream names the stream of what the senders of webhooks did, one after the
// other: a sender appends behind its own last record, so that another one ends it. It
// grows for ever and is never folded to append to it.
func DeliveriesStream() Stream {
	return Stream{Project: KindInstallation, Kind: KindDeliveries, ID: "sent"}
}

// RequestedStream names the stream of one request to send something again, which has one
// record.
func RequestedStream(event domain.ID) Stream {
	return Stream{Project: KindInstallation, Kind: KindDeliveries, ID: event.String()}
}

// ReportsStream names the stream of which settlement reports of a route were recorded.
func ReportsStream(route string) Stream {
	return Stream{Project: KindInstallation, Kind: KindSettlement, ID: route}
}

// BookStream names the stream of the lines of a settlement report that are of one project, or of
// the operator, whose books have the project KindInstallation. id is settlement.ID.
func BookStream(project, id string) Stream {
	return Stream{Project: project, Kind: KindSettlement, ID: id}
}

// ArrivedStream names the stream of the payouts that came through a route.
func ArrivedStream(route string) Stream {
	return Stream{Project: KindInstallation, Kind: KindPayouts, ID: route}
}

// PaidStream names the stream of the payouts to the merchant of a project.
func PaidStream(project string) Stream {
	return Stream{Project: project, Kind: KindPayouts, ID: project}
}

// Record is what a command adds to a stream. Expect is the position of the
// stream's last record as the command saw it; 0 means the stream must not
// exist yet. Body is stored, hashed, published and exported unchanged.
//
// Details stand beside the record and can be erased: see MaxDetails. Only a stream's first record may
// have some. Erases: they are removed, in the moment in which this record of the same stream is
// recorded.
//
// Event is what Codec.Decode would return for Body, if the writer has it. It is
// kept with Body as long as the record is in memory, so nothing that it points to
// may be modified.
type Record struct {
	Stream Stream
	Expect Position
	Body   []byte

	Details []byte       // nil: none
	Erases  bool         // the details of the stream's first record
	Event   domain.Event // nil: decode Body
}

// Claim ties a key to a record. An idempotency key can be claimed once within a project, and is
// remembered for at least 30 days. A permanent key (Forever) can be claimed once in the whole log;
// it has no fingerprint. The two kinds are independent: a key that is claimed as one can still be
// claimed as the other.
type Claim struct {
	Key         domain.Digest
	Fingerprint domain.Digest
	Forever     bool
}

// Commit is the result of one command: one event. ID is the event's id; it
// identifies a commit that is appended twice. The store may delay a Patient commit
// by some milliseconds, so that it shares a sync with others. Append keeps the
// body and the claim: they must not be modified afterwards.
type Commit struct {
	ID      domain.ID
	Record  Record
	Claim   *Claim
	Patient bool
}

// The size limits of a commit.
const (
	MaxBody = 64 << 10 // bytes of a record's body
	MaxName = 255      // bytes of each member of a Stream
)

// Validate checks the commit against the bounds of every store. A commit that
// fails can never be appended: it is a mistake of the caller.
func (c Commit) Validate() error {
	for _, n := range [...]struct{ member, name string }{
		{"project", c.Record.Stream.Project}, {"kind", c.Record.Stream.Kind}, {"id", c.Record.Stream.ID},
	} {
		if n.name == "" || len(n.name) > MaxName || strings.IndexByte(n.name, 0) >= 0 {
			return fmt.Errorf("commit %s: the stream's %s %q must have 1 to %d bytes, none of them 0", c.ID, n.member, n.name, MaxName)
		}
	}
	if n := len(c.Record.Body); n == 0 || n > MaxBody {
		return fmt.Errorf("commit %s: the body has %d bytes, want 1 to %d", c.ID, n, MaxBody)
	}
	if d := c.Record.Details; d != nil && (len(d) <= SaltSize || len(d) > MaxDetails || c.Record.Expect != 0) {
		return fmt.Errorf("commit %s: the details have %d bytes, want %d to %d, with the first record of a stream", c.ID, len(d), SaltSize+1, MaxDetails)
	}
	if c.ID.IsZero() {
		return errors.New("commit: the id is zero")
	}
	if c.Claim != nil && c.Claim.Forever && c.Claim.Fingerprint != (domain.Digest{}) {
		return fmt.Errorf("commit %s: a permanent claim has no fingerprint", c.ID)
	}
	return nil
}

// Stored is a record of the log. Body must not be modified.
type Stored struct {
	Position Position
	Stream   Stream
	Sequence uint64    // within the stream, from 1
	Prev     Position  // of the stream's previous record; 0 for the first
	Commit   domain.ID // event id
	At       time.Time // the time part of Commit: when its command began; not in the log's order
	Claim    *Claim
	Body     []byte
	Details  []byte       // nil: none, or they were erased; not to be modified either
	Erases   bool         // the Record's
	Event    domain.Event // the Record's, as long as it is in memory: see Codec.Event
}

// Appended is the result of one commit: its record or the error.
type Appended struct {
	Stored
	Err error
}

// Filter selects streams. Empty members match everything.
type Filter struct {
	Project string
	Kind    string
	ID      string
}

// Matches reports whether the filter selects the stream.
func (f Filter) Matches(s Stream) bool {
	return (f.Project == "" || f.Project == s.Project) && (f.Kind == "" || f.Kind == s.Kind) && (f.ID == "" || f.ID == s.ID)
}

// Store is the event log. It is safe for concurrent use. A crash cannot lose a
// record that a method has shown: records become visible once they are durable.
type Store interface {
	// Append decides the commits in this order, each by itself: one that succeeds is written whole and
	// is durable when Append returns. The results are in the order of the commits. Errors:
	// *ClaimedError when the claim's key is taken, else *ConflictError when Expect is not the stream's
	// last position, ErrBusy when the commit was not accepted and can be tried again, ErrFull while
	// the disk is full, ErrClosed, the context's error, Validate's, and *FatalError, after which the
	// store takes no more commits and whether this one is durable is decided at the next open. A
	// commit whose ID is that of its stream's last record, or of the record that holds its claim, is
	// that record, and is answered again. So a caller that lost an answer can send the commit again.
	//
	// When ctx ends while a commit is under way, Append returns soon: the
	// result is the context's error, and the commit may still become durable.
	Append(ctx context.Context, commits ...Commit) []Appended

	// Load yields a stream's records, oldest first, including every one whose
	// Append has returned. A stream that does not exist yields nothing.
	Load(ctx context.Context, s Stream) iter.Seq2[Stored, error]

	// LoadAfter is Load of the stream's records after a position. Earlier records
	// are not read.
	LoadAfter(ctx context.Context, s Stream, after Position) iter.Seq2[Stored, error]

	// Claimed finds the record that claimed a project's idempotency key. It does not look for
	// permanent claims.
	Claimed(ctx context.Context, project string, key domain.Digest) (Stored, bool, error)

	// Scan yields the records after a position, in order. It ends after the record
	// that is the newest durable one at that moment.
	Scan(ctx context.Context, after Position, f Filter) iter.Seq2[Stored, error]

	// Follow calls fn for every record after a position, in order: first for the
	// existing records, then for new ones as they become durable. It returns the
	// error of fn or ctx, ErrClosed, or the error that stopped the log.
	Follow(ctx context.Context, after Position, f Filter, fn func(Stored) error) error

	// Last is the position of the newest durable record, 0 for an empty log.
	Last(ctx context.Context) (Position, error)

	// LastOf is a position, at most Last, after which no durable record matches the filter: that of
	// the newest matching record, or a later one if finding that would need the disk. A reader that
	// has seen the log up to it has seen every record that matches.
	LastOf(ctx context.Context, f Filter) (Position, error)

	// Close ends Follow, waits for the running commits and releases the log.
	Close() error
}

// Confirmer is a Store that is one of several with the same log. Its reads show what its own
// machine has, which may be old.
type Confirmer interface {
	Store

	// Arrive notes that a question has arrived. confirm waits until it is known that this
	// machine had, when the question arrived, every record whose Append had returned on any of
	// them: so what was read since is true. If that cannot be known, the error is an ErrBusy.
	// soon says that confirm will be called in any case.
	Arrive(soon bool) (confirm func(context.Context) error)
}

// Arrive is Confirmer.Arrive; of a store that is alone there is nothing to confirm.
func Arrive(s Store, soon bool) (confirm func(context.Context) error) {
	if one, ok := s.(Confirmer); ok {
		return one.Arrive(soon)
	}
	return func(context.Context) error { return nil }
}

// AppendOne appends one commit.
func AppendOne(ctx context.Context, s Store, c Commit) (Stored, error) {
	a := s.Append(ctx, c)[0]
	return a.Stored, a.Err
}

// MissingCheckpoint says that a log of this size was opened without the
// checkpoint that had been signed for it: if its end had been cut off, nothing
// would show it.
type MissingCheckpoint struct {
	Size Position
	At   time.Time
}
