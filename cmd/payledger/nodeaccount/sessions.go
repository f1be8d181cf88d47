package nodeaccount

import (
	"bytes"
	"context"
	"crypto/rand"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/httpapi/account/store"
)

// Clean implements store.Store. JetStream does that.
func (s *Store) Clean(time.Time) error { return nil }

// nonce is how long the random part of a used form is.
const nonce = 8

const (
	formTime = 3 * time.Second // how long a form may be carried out by another node
	formPoll = 50 * time.Millisecond
)

// UseForm implements store.Store. While another node carries out the form it waits for
// where that leads: it may be a secret, which the browser that sent the form twice does
// not see otherwise.
func (s *Store) UseForm(token string, end time.Time) (fresh bool, path string, err error) {
	for asked := time.Now(); ; <-time.After(formPoll) {
		fresh, path, err = s.useForm(token, end)
		if fresh || path != "" || err != nil || time.Since(asked) > s.formTime {
			return fresh, path, err
		}
	}
}

// useForm uses a form up, if nobody has. What is random in the message tells, after a
// lost answer, whose it is.
func (s *Store) useForm(token string, end time.Time) (fresh bool, path string, err error) {
	mine := make([]byte, nonce)
	_, _ = rand.Read(mine) // never fails
	subject := formsSubject + hash(token)
	err = s.try(formsName, func(ctx context.Context, in jetstream.Stream) error {
		failed := s.put(ctx, subject, 0, store.Ending(end, mine), end)
		if failed == nil {
			fresh = true
			return nil
		}
		m, err := last(ctx, in, subject)
		switch {
		case err != nil:
			return err
		case m.number == 0 || len(m.content) < nonce:
			return failed
		}
		fresh, path = bytes.Equal(m.content[:nonce], mine), string(m.content[nonce:])
		return nil
	})
	return fresh && err == nil, path, err
}

// FormLed implements store.Store.
func (s *Store) FormLed(token, path string) error {
	subject := formsSubject + hash(token)
	return s.try(formsName, func(ctx context.Context, in jetstream.Stream) error {
		m, err := last(ctx, in, subject)
		if err != nil || len(m.content) < nonce || string(m.content[nonce:]) == path {
			return err
		}
		end := time.UnixMilli(m.end)
		return s.put(ctx, subject, m.number, store.Ending(end, append(m.content[:nonce:nonce], path...)), end)
	})
}
