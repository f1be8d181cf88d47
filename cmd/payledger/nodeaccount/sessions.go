package nodeaccount

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/httpapi/account/store"
)

func sessionSubject(token, project string) string {
	return sessionsSubject + "s." + hash(token) + "." + cmp.Or(project, "-")
}

// Find implements store.Store, as do all of these.
func (s *Store) Find(token string) (values []byte, found bool, err error) {
	err = s.try(sessionsName, func(ctx context.Context, in jetstream.Stream) error {
		m, err := last(ctx, in, sessionSubject(token, "*"))
		values, found = m.content, len(m.content) > 0 && time.Now().UnixMilli() < m.end
		return err
	})
	return values, found, err
}

// Commit implements store.Store.
func (s *Store) Commit(token, project string, values []byte, end time.Time) error {
	return s.try(sessionsName, func(ctx context.Context, in jetstream.Stream) error {
		m, err := last(ctx, in, sessionSubject(token, "*"))
		if err != nil {
			return err
		}
		signedOut := m.number != 0 && len(m.content) == 0
		if signedOut || m.end == end.UnixMilli() && bytes.Equal(m.content, values) {
			return nil
		}
		if m.number == 0 {
			if err := s.makeRoom(ctx, in, project); err != nil {
				return err
			}
		}
		return s.put(ctx, cmp.Or(m.subject, sessionSubject(token, project)), m.number, store.Ending(end, values), end)
	})
}

// makeRoom removes the session of a project that was not used for the longest time, if
// there are too many.
func (s *Store) makeRoom(ctx context.Context, in jetstream.Stream, project string) error {
	all := sessionsSubject + "s.*." + project
	info, err := in.Info(ctx, jetstream.WithSubjectFilter(all))
	if err != nil || len(info.State.Subjects) < s.most {
		return err
	}
	oldest, err := in.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(all))
	if err != nil {
		return err
	}
	return in.Purge(ctx, jetstream.WithPurgeSubject(oldest.Subject))
}

// Delete implements store.Store.
func (s *Store) Delete(token string) error {
	return s.try(sessionsName, func(ctx context.Context, in jetstream.Stream) error {
		m, err := last(ctx, in, sessionSubject(token, "*"))
		if err != nil || len(m.content) == 0 {
			return err
		}
		end := time.UnixMilli(m.end)
		return s.put(ctx, m.subject, m.number, store.Ending(end, nil), end)
	})
}

// Clean implements store.Store. JetStream does that.
func (s *Store) Clean(time.Time) error { return nil }

func generationSubject(of store.Session) string {
	return sessionsSubject + "g." + of.Project + "." + of.KeyID
}

// Generation implements store.Store.
func (s *Store) Generation(of store.Session) (n uint64, err error) {
	err = s.try(sessionsName, func(ctx context.Context, in jetstream.Stream) error {
		m, err := last(ctx, in, generationSubject(of))
		n = uint64(m.end)
		return err
	})
	return n, err
}

// EndAll implements store.Store. Should it be done twice, as after a lost answer, that
// is no harm.
func (s *Store) EndAll(of store.Session) error {
	return s.try(sessionsName, func(ctx context.Context, in jetstream.Stream) error {
		m, err := last(ctx, in, generationSubject(of))
		if err != nil {
			return err
		}
		return s.put(ctx, generationSubject(of), m.number, binary.BigEndian.AppendUint64(nil, uint64(m.end)+1), time.Time{})
	})
}

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
