package consumers

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
)

func config(t *testing.T) Config {
	t.Helper()
	return Config{
		File:  filepath.Join(t.TempDir(), "consumers.json"),
		Write: func(name string, content []byte) error { return os.WriteFile(name, content, 0o600) },
		LogID: domain.ID{1}, Last: 100, IDs: domain.NewIDs(time.Now, rand.Reader, domain.ID{}),
	}
}

func open(t *testing.T, c Config) *Book {
	t.Helper()
	b, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func create(t *testing.T, b *Book, name string) installation.NewNATSConsumer {
	t.Helper()
	made, err := b.Create(t.Context(), name, "", unrecorded)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// unrecorded takes acts for recorded.
func unrecorded(installation.Act) error { return nil }

func refusedWith(t *testing.T, err error, code domain.Code) {
	t.Helper()
	var r *domain.Refusal
	if !errors.As(err, &r) || r.Code != code {
		t.Errorf("%v, want %s", err, code)
	}
}

// A position is that of the file's log, never behind a later one's end, and only
// moves forward unless it is reset.
func TestPositionsSkipNoEvent(t *testing.T) {
	t.Parallel()
	c := config(t)
	b := open(t, c)
	create(t, b, "books")
	begun := b.All()[0]
	b.Progress(begun, 60, 3)
	b.Progress(begun, 40, 0) // of an older JetStream
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	if got := open(t, c).All()[0]; got.Position != 60 || got.Start != begun.Start {
		t.Errorf("opened again: %+v", got)
	}
	shorter, other := c, c
	shorter.Last, other.LogID = 50, domain.ID{2}
	for want, c := range map[eventstore.Position]Config{50: shorter, 0: other} {
		if got := open(t, c).All()[0]; got.Position != want || got.Start == begun.Start {
			t.Errorf("at %d, want %d and another durable consumer", got.Position, want)
		}
	}

	if err := b.Reset(t.Context(), "books", 10, unrecorded); err != nil {
		t.Fatal(err)
	}
	b.Progress(begun, 70, 0) // from before the reset
	if got := b.All()[0]; got.Position != 10 || got.Start == begun.Start {
		t.Errorf("after the reset: %+v", got)
	}
	if got := open(t, c).All()[0]; got.Position != 10 {
		t.Errorf("the reset is not in the file: %+v", got)
	}
}

func TestConsumersAreBounded(t *testing.T) {
	t.Parallel()
	b := open(t, config(t))
	for i := range bus.MaxConsumers {
		create(t, b, fmt.Sprintf("c%d", i))
	}
	_, err := b.Create(t.Context(), "more", "", unrecorded)
	refusedWith(t, err, domain.NATSConsumerLimit)
	_, err = b.Create(t.Context(), "c1", "", unrecorded)
	refusedWith(t, err, domain.NATSConsumerExists)
	for _, name := range bus.ReservedNames() {
		_, err = b.Create(t.Context(), name, "", unrecorded)
		refusedWith(t, err, domain.NATSConsumerExists)
	}
	if err := b.Remove(t.Context(), "c1", unrecorded); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, b.Remove(t.Context(), "c1", unrecorded), domain.NATSConsumerNotFound)
	refusedWith(t, b.Reset(t.Context(), "c1", 0, unrecorded), domain.NATSConsumerNotFound)
	create(t, b, "c1")
}

func TestExternalServerTakesNoConsumers(t *testing.T) {
	t.Parallel()
	c := config(t)
	create(t, open(t, c), "books")
	b := open(t, c)
	b.Attach(Live{External: true})
	_, err := b.Create(t.Context(), "more", "", unrecorded)
	refusedWith(t, err, domain.NATSExternal)
	refusedWith(t, b.Reset(t.Context(), "books", 0, unrecorded), domain.NATSExternal)
	if n := len(b.List(t.Context())); n != 1 {
		t.Errorf("%d consumers", n)
	}
	if err := b.Remove(t.Context(), "books", unrecorded); err != nil {
		t.Error(err)
	}
}

// A consumer whose password nobody learned is not kept.
func TestCreateAllOrNothing(t *testing.T) {
	t.Parallel()
	c := config(t)
	b := open(t, c)
	b.Attach(Live{
		Users:    func() error { return embedded.ErrStarting },
		Durables: func(context.Context) error { return nil },
	})
	if made, err := b.Create(t.Context(), "books", "", unrecorded); !errors.Is(err, embedded.ErrStarting) || made.Password != "" {
		t.Errorf("%+v, %v", made, err)
	}
	if n := len(b.All()) + len(open(t, c).All()); n != 0 {
		t.Errorf("%d consumers", n)
	}
}

func TestFileHoldsNoPassword(t *testing.T) {
	t.Parallel()
	c := config(t)
	made := create(t, open(t, c), "books")
	content, err := os.ReadFile(c.File)
	if err != nil || bytes.Contains(content, []byte(made.Password)) {
		t.Errorf("%s, %v", content, err)
	}
	for _, damaged := range []string{
		"", "{", `{"log":"0","consumers":[]}`,
		string(bytes.Replace(content, []byte(`"name":"books"`), []byte(`"name":"relay"`), 1)),
		string(bytes.Replace(content, []byte(`"name":"books"`), []byte(`"name":"a.>"`), 1)),
		string(bytes.Replace(content, []byte(`$2a$`), []byte(`plain`), 1)),
		string(bytes.Replace(content, []byte(`"name":`), []byte(`"project_id":"*","name":`), 1)),
	} {
		if err := os.WriteFile(c.File, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(c); err == nil {
			t.Errorf("opened %s", damaged)
		}
	}
}

// An act is recorded once nothing stands in its way, and before it is done: what
// cannot be recorded is not done.
func TestActsAreRecordedFirst(t *testing.T) {
	t.Parallel()
	b := open(t, config(t))
	var acts []installation.Act
	record := func(e installation.Act) error {
		acts = append(acts, e)
		return nil
	}
	full := errors.New("the disk is full")
	refuse := func(installation.Act) error { return full }
	if _, err := b.Create(t.Context(), "books", "prj_1", refuse); !errors.Is(err, full) || len(b.All()) != 0 {
		t.Errorf("%v, %d consumers", err, len(b.All()))
	}
	for range 2 { // the second is refused
		_, _ = b.Create(t.Context(), "books", "prj_1", record)
	}
	if err := b.Reset(t.Context(), "books", 7, refuse); !errors.Is(err, full) || b.All()[0].Position != 0 {
		t.Errorf("%v, at %d", err, b.All()[0].Position)
	}
	if err := b.Reset(t.Context(), "books", 7, record); err != nil {
		t.Error(err)
	}
	if err := b.Remove(t.Context(), "books", refuse); !errors.Is(err, full) || len(b.All()) != 1 {
		t.Errorf("%v, %d consumers", err, len(b.All()))
	}
	for range 2 {
		_ = b.Remove(t.Context(), "books", record)
	}
	want := []installation.Act{
		installation.NATSConsumerCreated{Name: "books", ProjectID: "prj_1"},
		installation.NATSConsumerReset{Name: "books", Position: 7},
		installation.NATSConsumerRemoved{Name: "books"},
	}
	if !slices.Equal(acts, want) {
		t.Errorf("recorded: %v", acts)
	}
}
