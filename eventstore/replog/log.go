package replog

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/bolt/record"
)

const (
	// StreamName is the name of LOG. The messages of an incarnation have a subject of their
	// own, so that a publication that is late finds no stream.
	StreamName = "LOG"
	subject    = "payledger.log."

	// LOG's bounds. A node that is further behind copies a peer's file.
	maxMessages = 1 << 16
	maxBytes    = 1 << 30
	replicas    = 3

	metaLedger = "payledger-log" // in LOG's metadata: the id of the event log

	hearEvery = 250 * time.Millisecond
	trimEvery = 10 * time.Second
	feedBeat  = 500 * time.Millisecond // of the feed's consumer: a dead one is noticed within two
	feedAhead = 256                    // messages
	feedKept  = time.Minute            // without a reader
)

// The headers of a message. Its body is the records, each behind its length as a varint, and
// behind a record that was written with details these, sealed, likewise: none of them if they
// were erased.
const (
	headAfter  = "Payledger-After"  // the position of the record before the first one
	headBefore = "Payledger-Before" // SHA-256 of that record as it is stored, in hexadecimal
	headNonce  = "Payledger-Nonce"
)

func encode(log string, key []byte, g *Group) *nats.Msg {
	m := nats.NewMsg(subject + log)
	c := cipherOf(key, g.Nonce)
	m.Header.Set(headAfter, strconv.FormatUint(uint64(g.After.Last), 10))
	m.Header.Set(headBefore, hex.EncodeToString(g.After.Sum[:]))
	m.Header.Set(headNonce, hex.EncodeToString(g.Nonce[:]))
	for i, r := range g.Records {
		details := g.DetailsOf(i)
		if details != nil {
			details = seal(c, i, r, details)
		}
		m.Data = appendRecord(m.Data, r, details)
	}
	return m
}

func appendRecord(to, r, details []byte) []byte {
	to = append(binary.AppendUvarint(to, uint64(len(r))), r...)
	if record.HasDetails(r) {
		to = append(binary.AppendUvarint(to, uint64(len(details))), details...)
	}
	return to
}

// readRecord reads what appendRecord wrote, with details of most bytes at most; nil: there are none.
func readRecord(in recordReader, most uint64) (r, details []byte, err error) {
	if r, err = readPart(in, record.MaxSize); err == nil && record.HasDetails(r) {
		details, err = readPart(in, most)
	}
	return r, details, err
}

type recordReader interface {
	io.Reader
	io.ByteReader
}

// readPart reads what follows its length as a varint; nil: it is empty.
func readPart(in recordReader, most uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(in)
	switch {
	case err != nil || n == 0:
		return nil, err
	case n > most:
		return nil, fmt.Errorf("a record or details of %d bytes", n)
	}
	b := make([]byte, n)
	_, err = io.ReadFull(in, b)
	return b, err
}

// decode reads a message. Whether its records follow from the log is bolt's to check.
func decode(h nats.Header, key, body []byte) (*Group, error) {
	g := new(Group)
	after, err := strconv.ParseUint(h.Get(headAfter), 10, 64)
	sum, sumErr := hex.DecodeString(h.Get(headBefore))
	nonce, nonceErr := hex.DecodeString(h.Get(headNonce))
	if err := errors.Join(err, sumErr, nonceErr); err != nil || len(sum) != len(g.After.Sum) || len(nonce) != len(g.Nonce) {
		return nil, fmt.Errorf("not a message of LOG: %w", err)
	}
	g.After = bolt.Tip{Last: eventstore.Position(after), Sum: [32]byte(sum)}
	g.Nonce = Nonce(nonce)
	c := cipherOf(key, g.Nonce)
	for in := bytes.NewReader(body); in.Len() > 0; {
		r, details, err := readRecord(in, eventstore.MaxDetails+sealMore)
		switch {
		case err != nil:
			return nil, fmt.Errorf("not a message of LOG: %w", err)
		case len(r) == 0:
			return nil, errors.New("not a message of LOG: a record is empty")
		case details != nil:
			if details, err = open(c, len(g.Records), r, details); err != nil {
				return nil, err
			}
		}
		g.Records, g.Details = append(g.Records, r), append(g.Details, details)
	}
	return g, nil
}

// publish publishes a group: nil if LOG took it behind the message that it expects.
// Any error leaves it unknown, also that of a wrong sequence (10071): LOG's leader counts
// proposals that may never be committed.
func (s *Store) publish(x publish, m *nats.Msg) error {
	ctx, cancel := context.WithTimeout(s.ctx, publishTime)
	defer cancel()
	ack, err := s.js.PublishMsg(ctx, m, jetstream.WithExpectStream(StreamName),
		jetstream.WithExpectLastSequence(x.seq), jetstream.WithRetryAttempts(0))
	switch {
	case err != nil:
		return err
	case ack.Stream != StreamName, ack.Sequence != x.seq+1, ack.Duplicate:
		return fmt.Errorf("LOG answered with message %d of %s", ack.Sequence, ack.Stream)
	}
	return nil
}

// found makes an empty LOG. JetStream makes a stream only while all servers that shall
// keep it are up, so what else the node needs is made before.
func (s *Store) found() error {
	ctx, cancel := context.WithTimeout(s.ctx, foundTime)
	defer cancel()
	if s.config.Prepare != nil {
		if err := s.config.Prepare(ctx); err != nil {
			return err
		}
	}
	_, err := s.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: StreamName, Description: "The groups of commits of payledger's event log, until every node has them.",
		Subjects: []string{subject + s.config.NewID()}, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Replicas: replicas,
		MaxMsgs: maxMessages, MaxBytes: maxBytes, MaxMsgsPerSubject: -1, MaxMsgSize: -1, MaxConsumers: -1,
		Discard: jetstream.DiscardNew, DenyDelete: true, Duplicates: 100 * time.Millisecond,
		Metadata: map[string]string{metaLedger: s.LogID().String()},
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another node was faster
		return nil
	}
	return err
}

// incarnation is the id of LOG as it is, if it is that of this event log.
func (s *Store) incarnation(c jetstream.StreamConfig) (string, error) {
	if ledger := c.Metadata[metaLedger]; ledger != s.LogID().String() {
		return "", fmt.Errorf("LOG is of the event log %q, and this is %s", ledger, s.LogID())
	}
	if len(c.Subjects) != 1 || c.Storage != jetstream.FileStorage || c.Discard != jetstream.DiscardNew || !c.DenyDelete || c.MaxAge != 0 ||
		c.Retention != jetstream.LimitsPolicy || c.Mirror != nil || len(c.Sources) > 0 || c.SubjectTransform != nil {
		return "", errors.New("LOG's settings were changed and could lose groups")
	}
	return strings.TrimPrefix(c.Subjects[0], subject), nil
}

// hear asks LOG's servers for LOG. While it has no leader nobody answers, so it may be
// asked again meanwhile: only the newest answer counts.
func (s *Store) hear() {
	ctx, cancel := context.WithTimeout(s.ctx, publishTime)
	defer cancel()
	s.mu.Lock()
	s.questions++
	question, since := s.questions, s.m.place
	s.mu.Unlock()
	stream, err := s.js.Stream(ctx, StreamName)
	h := heard{since: since}
	if err == nil {
		info := stream.CachedInfo()
		h.last, h.empty = info.State.LastSeq, info.State.Msgs == 0
		if h.leader = s.config.Name; info.Cluster != nil { // a server alone leads it always
			h.leader = info.Cluster.Leader
		}
		h.log, err = s.incarnation(info.Config)
		s.info.Store(info)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if question < s.answered {
		return
	}
	s.answered = question
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if s.missing.IsZero() {
			s.missing = time.Now()
		}
		if time.Since(s.missing) < s.config.LostAfter {
			return
		}
		err = nil
	} else if err == nil {
		s.missing = time.Time{}
	}
	if err != nil {
		s.reportLocked(fmt.Errorf("asking for LOG: %w", err))
		return
	}
	s.step(h)
}

// feed shows the machine the messages of an incarnation of LOG in order, from its first
// one on.
func (s *Store) feed(ctx context.Context, log string) {
	for from := uint64(0); ctx.Err() == nil; {
		err := s.feedFrom(ctx, log, &from)
		if ctx.Err() == nil {
			s.report(fmt.Errorf("reading LOG: %w", err))
			s.sleep(ctx, retryAfter)
		}
	}
}

// feedFrom reads with a consumer of its own, which may be made on a server that has just died:
// then it is not answered, and another one is made under another name. An ordered consumer of
// nats.go tries the same name for ever.
func (s *Store) feedFrom(ctx context.Context, log string, from *uint64) error {
	making, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	consumer, err := s.js.CreateConsumer(making, StreamName, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(*from, 1), AckPolicy: jetstream.AckNonePolicy,
		Replicas: 1, MemoryStorage: true, InactiveThreshold: feedKept,
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(feedAhead), jetstream.PullHeartbeat(feedBeat), jetstream.WithMessagesErrOnMissingHeartbeat(true))
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, messages.Stop)()
	defer messages.Stop()
	for next := uint64(1); ; next++ {
		m, err := messages.Next()
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Consumer != next {
			return fmt.Errorf("delivery %d came after %d", meta.Sequence.Consumer, next-1)
		}
		if m.Subject() != subject+log {
			return fmt.Errorf("its messages are of %s, not of %s%s", m.Subject(), subject, log)
		}
		g, err := decode(m.Headers(), s.config.Key, m.Data())
		if err != nil {
			return fmt.Errorf("message %d: %w", meta.Sequence.Stream, err)
		}
		s.show(ctx, fed{place{log, meta.Sequence.Stream}, g})
		*from = meta.Sequence.Stream + 1
	}
}

// show shows the machine a message until it needs the next one.
func (s *Store) show(ctx context.Context, e fed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ctx.Err() == nil && s.m.place.log == e.log && s.m.place.seq < e.seq {
		if s.step(e); s.m.place.seq < e.seq {
			s.moved.Wait() // ticks wake it
		}
	}
}

// stepDown asks LOG for another leader.
func (s *Store) stepDown(to string) error {
	var request []byte
	if to != "" {
		request = fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, to)
	}
	ctx, cancel := context.WithTimeout(s.ctx, publishTime)
	defer cancel()
	reply, err := s.conn.RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+StreamName, request)
	if err != nil {
		return err
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil || answer.Error == nil {
		return err
	}
	return answer.Error
}

// trim removes from LOG what all nodes have in their files, but its last message. A peer
// that does not answer, or stays behind, keeps LOG from being trimmed until it is three
// quarters full; then half of it goes.
func (s *Store) trim() {
	own := s.Status()
	info := s.info.Load()
	if !own.Ready || info == nil {
		return
	}
	upTo, all := own.Message, true
	for _, p := range s.lastPeers() {
		if p.LOG == own.LOG && p.Silent == "" {
			upTo = min(upTo, p.Message)
		} else {
			all = false
		}
	}
	state := info.State
	if state.Msgs >= maxMessages/4*3 || state.Bytes >= maxBytes/4*3 {
		upTo, all = max(upTo, min(own.Message, state.FirstSeq+state.Msgs/2)), true
	}
	if !all || upTo <= state.FirstSeq {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, publishTime)
	defer cancel()
	stream, err := s.js.Stream(ctx, StreamName)
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSequence(upTo))
	}
	if err != nil {
		s.report(fmt.Errorf("trimming LOG: %w", err))
	}
}
