// Package nodeaccount is what the merchant's account keeps in a cluster: a form that was
// used at one node was used at all of them.
//
// Forms that were used are messages of a JetStream stream with three replicas, one message
// for each. JetStream's leader answers each read. It may be a deposed one for some
// seconds; but no page is shown without a true read of the log, which fails there.
//
//	FORMS     payledger.forms.HASH                end of the session (8), random (8), the path that the form led to
//
// Ends are milliseconds since 1970, numbers are big-endian. Hashes are SHA-256 in
// hexadecimal: no stream holds a token, nor any secret. A message goes with the end of its
// session. FORMS has room for some 300,000 forms; then the oldest goes, and if the same
// form is sent again, the idempotency key of what it led to is what is left to recognise it.
//
// This is no JetStream key-value bucket, because one has no times to live of its own for
// values that change, and reads from any replica.
//
// A secret that was made is shown by the page that the browser is led to, maybe at another
// node. It stays in the memory of the node that made it, which hands it over to the one
// that shows it. When keys were used last is in each node's own file.
package nodeaccount

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/cmd/payledger/members"
	"payledger/eventstore"
	"payledger/httpapi/account/store"
	"payledger/notifier/health"
)

const (
	formsName, formsSubject = "FORMS", "payledger.forms."

	formsBytes = 64 << 20
	maxMessage = 16 << 10

	// tryTime is how long a read or a change is tried, onceTime how long JetStream may
	// take for an answer, and pause the time between two tries.
	tryTime, onceTime, pause = 4 * time.Second, 2 * time.Second, 50 * time.Millisecond
)

// Store is a node's. Safe for concurrent use.
type Store struct {
	*store.File // times of use, and secrets that wait to be shown

	node    *members.Node
	unasked func() error // ends the answers to other nodes

	replicas int // of the stream
	formTime time.Duration

	mu    sync.Mutex
	found map[string]jetstream.Stream
}

// Open begins to keep what a node's account needs; the file is closed by Close.
func Open(file *store.File, node *members.Node) (*Store, error) {
	s := &Store{File: file, node: node, replicas: len(node.Members), formTime: formTime, found: make(map[string]jetstream.Stream)}
	var err error
	s.unasked, err = node.Answer(revealKind, s.giveAway)
	return s, err
}

// Close closes the file. Run has ended.
func (s *Store) Close() error { return errors.Join(s.unasked(), s.File.Close()) }

// Run makes the streams, which takes all nodes the first time, and writes times of use
// to the file until ctx ends.
func (s *Store) Run(ctx context.Context) {
	var making sync.WaitGroup
	making.Go(func() {
		for s.make(ctx) != nil && health.Pause(ctx, time.Second) {
		}
	})
	s.File.Run(ctx)
	making.Wait()
}

func (s *Store) make(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, onceTime)
	defer cancel()
	_, err := s.stream(ctx, formsName)
	return err
}

// stream finds a stream, or makes it.
func (s *Store) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s.mu.Lock()
	known := s.found[name]
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	config := jetstream.StreamConfig{
		Name: name, Description: "Forms of the account that were used.",
		Subjects: []string{formsSubject + ">"}, Storage: jetstream.FileStorage, Replicas: s.replicas,
		MaxMsgs: -1, MaxBytes: formsBytes, MaxMsgsPerSubject: 1, MaxMsgSize: maxMessage, MaxConsumers: -1,
		Discard: jetstream.DiscardOld, AllowMsgTTL: true,
	}
	js := s.node.Conn.JetStream()
	found, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		found, err = js.CreateStream(ctx, config)
	}
	if err != nil {
		return nil, err
	}
	if !slices.Equal(found.CachedInfo().Config.Subjects, config.Subjects) {
		return nil, fmt.Errorf("it does not take %s: payledger did not make it; give payledger an account of its own", config.Subjects[0])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found[name] = found
	return found, nil
}

func (s *Store) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.found, name)
}

// try does something with a stream until it succeeds or the time is over. The error is
// then eventstore.ErrBusy: the request may come again.
func (s *Store) try(name string, do func(context.Context, jetstream.Stream) error) error {
	for until := time.Now().Add(tryTime); ; {
		err := s.once(name, do)
		if err == nil {
			return nil
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			s.forget(name)
		}
		if time.Now().After(until) || !health.Pause(context.Background(), pause) {
			s.node.Report(fmt.Errorf("the account's stream %s: %w", name, err))
			return fmt.Errorf("%w: the account's forms: %w", eventstore.ErrBusy, err)
		}
	}
}

func (s *Store) once(name string, do func(context.Context, jetstream.Stream) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), onceTime)
	defer cancel()
	stream, err := s.stream(ctx, name)
	if err != nil {
		return err
	}
	return do(ctx, stream)
}

// message is the newest one of a subject.
type message struct {
	subject string
	number  uint64 // 0: there is none
	end     int64
	content []byte // behind the end
}

// last finds the newest message of a subject, which may have a wildcard.
func last(ctx context.Context, in jetstream.Stream, subject string) (message, error) {
	raw, err := in.GetLastMsgForSubject(ctx, subject)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return message{}, nil
	case err != nil:
		return message{}, err
	}
	m := message{subject: raw.Subject, number: raw.Sequence}
	m.end, m.content = store.Ended(raw.Data)
	return m, nil
}

// put publishes a message as the next one of its subject behind another.
func (s *Store) put(ctx context.Context, subject string, behind uint64, data []byte, until time.Time) error {
	options := []jetstream.PublishOpt{jetstream.WithExpectLastSequencePerSubject(behind), jetstream.WithRetryAttempts(0)}
	if !until.IsZero() {
		options = append(options, jetstream.WithMsgTTL(max(time.Second, time.Until(until).Truncate(time.Second))))
	}
	_, err := s.node.Conn.JetStream().PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data}, options...)
	return err
}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
