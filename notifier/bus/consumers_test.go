package bus

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/crypto/bcrypt"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/notifier/health/healthtest"
)

// acts are the installation's log.
type acts struct {
	installation.Installation

	events []domain.Event
}

func (a *acts) record(c installation.Command) error {
	e, err := a.Decide(c)
	if err == nil && e != nil {
		a.events, a.Installation = append(a.events, e), a.Evolve(e)
	}
	return err
}

func consumersConfig(t *testing.T) (ConsumersConfig, *acts) {
	t.Helper()
	a := new(acts)
	return ConsumersConfig{
		File:  filepath.Join(t.TempDir(), "consumers.json"),
		Write: func(name string, content []byte) error { return os.WriteFile(name, content, 0o600) },
		LogID: domain.ID{1}, Last: 100, IDs: domain.NewIDs(time.Now, rand.Reader, domain.ID{}),
		Known: func() []installation.Consumer { return a.Consumers },
	}, a
}

func open(t *testing.T, c ConsumersConfig) *Consumers {
	t.Helper()
	b, err := OpenConsumers(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func create(t *testing.T, b *Consumers, a *acts, name string) installation.NewNATSConsumer {
	t.Helper()
	made, err := b.Create(t.Context(), name, "", a.record)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

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
	c, a := consumersConfig(t)
	b := open(t, c)
	create(t, b, a, "books")
	begun := b.All()[0]
	b.progress(begun, 60, 3)
	b.progress(begun, 40, 0) // of an older JetStream
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	if got := open(t, c).All()[0]; got.From != 60 || got.Start != begun.Start {
		t.Errorf("opened again: %+v", got)
	}
	shorter, other := c, c
	shorter.Last, other.LogID = 50, domain.ID{2}
	for _, opened := range []struct {
		as   string
		c    ConsumersConfig
		want uint64
	}{
		{"a restored log", shorter, 50},
		{"the restored log with new events, of which none was acknowledged", c, 50},
		{"another log", other, 0},
		{"the first log again", c, 0},
	} {
		if got := open(t, opened.c).All()[0]; got.From != opened.want {
			t.Errorf("%s: at %d, want %d", opened.as, got.From, opened.want)
		}
	}

	if err := b.Reset(t.Context(), "books", 10, a.record); err != nil {
		t.Fatal(err)
	}
	b.progress(begun, 70, 0) // from before the reset
	if got := b.All()[0]; got.From != 10 || got.Start == begun.Start {
		t.Errorf("after the reset: %+v", got)
	}
	// The file is of before the reset, or lost.
	if got := open(t, c).All()[0]; got.From != 10 {
		t.Errorf("the reset does not count: %+v", got)
	}
	if err := os.Remove(c.File); err != nil {
		t.Fatal(err)
	}
	if got := open(t, c).All()[0]; got.From != 10 {
		t.Errorf("without a file: %+v", got)
	}
}

func TestConsumersAreBounded(t *testing.T) {
	t.Parallel()
	c, a := consumersConfig(t)
	b := open(t, c)
	for i := range installation.MaxConsumers {
		create(t, b, a, fmt.Sprintf("c%d", i))
	}
	_, err := b.Create(t.Context(), "more", "", a.record)
	refusedWith(t, err, domain.NATSConsumerLimit)
	if err := b.Remove(t.Context(), "c1", a.record); err != nil {
		t.Fatal(err)
	}
	create(t, b, a, "c1")
	_, err = b.Create(t.Context(), "c1", "", a.record)
	refusedWith(t, err, domain.NATSConsumerExists)
	for _, name := range reservedNames() {
		_, err = b.Create(t.Context(), name, "", a.record)
		refusedWith(t, err, domain.NATSConsumerExists)
	}
	refusedWith(t, b.Remove(t.Context(), "none", a.record), domain.NATSConsumerNotFound)
	refusedWith(t, b.Reset(t.Context(), "none", 0, a.record), domain.NATSConsumerNotFound)
}

func TestExternalServerTakesNoConsumers(t *testing.T) {
	t.Parallel()
	c, a := consumersConfig(t)
	create(t, open(t, c), a, "books")
	b := open(t, c)
	b.Attach(&Durables{conn: &Conn{}})
	_, err := b.Create(t.Context(), "more", "", a.record)
	refusedWith(t, err, domain.NATSExternal)
	refusedWith(t, b.Reset(t.Context(), "books", 0, a.record), domain.NATSExternal)
	if n := len(b.List(t.Context())); n != 1 {
		t.Errorf("%d consumers", n)
	}
	if err := b.Remove(t.Context(), "books", a.record); err != nil {
		t.Error(err)
	}
}

// startingServer takes over no consumers.
type startingServer struct{ plainServer }

var errStarting = errors.New("it is being started")

func (startingServer) ReloadConsumers() error { return errStarting }

// A consumer whose password nobody learned is not kept.
func TestCreateAllOrNothing(t *testing.T) {
	t.Parallel()
	c, a := consumersConfig(t)
	b := open(t, c)
	b.Attach(NewDurables(connected(t, startingServer{started(t)}), healthtest.Log(t), nil))
	if made, err := b.Create(t.Context(), "books", "", a.record); !errors.Is(err, errStarting) || made.Password != "" {
		t.Errorf("%+v, %v", made, err)
	}
	if n := len(b.All()) + len(open(t, c).All()); n != 0 {
		t.Errorf("%d consumers", n)
	}
}

// What cannot be recorded is not done, and no event has a password.
func TestConsumersAreRecorded(t *testing.T) {
	t.Parallel()
	c, a := consumersConfig(t)
	b := open(t, c)
	full := errors.New("the disk is full")
	refuse := func(installation.Command) error { return full }
	if _, err := b.Create(t.Context(), "books", "prj_1", refuse); !errors.Is(err, full) || len(b.All()) != 0 {
		t.Errorf("%v, %d consumers", err, len(b.All()))
	}
	made := create(t, b, a, "books")
	if err := b.Reset(t.Context(), "books", 7, refuse); !errors.Is(err, full) || b.All()[0].From != 0 {
		t.Errorf("%v, at %d", err, b.All()[0].From)
	}
	if err := b.Remove(t.Context(), "books", refuse); !errors.Is(err, full) || len(b.All()) != 1 {
		t.Errorf("%v, %d consumers", err, len(b.All()))
	}
	all, err := json.Marshal(a.events)
	if err != nil || len(a.events) != 1 || bytes.Contains(all, []byte(made.Password)) {
		t.Errorf("%s, %v", all, err)
	}
	if bcrypt.CompareHashAndPassword([]byte(b.All()[0].Password), []byte(made.Password)) != nil {
		t.Error("the password does not open the server")
	}
}

func TestDamagedFilesAreLeftAlone(t *testing.T) {
	t.Parallel()
	c, _ := consumersConfig(t)
	for _, damaged := range []string{
		"", "{", `{"log":"0","consumers":[]}`,
		`{"log":"040G00000000000000000000G0","consumers":[{"name":"books","start":"01M7W78FJBM8T4R7B5N0C1D2E3","position":-1}]}`,
		`{"log":"040G00000000000000000000G0","consumers":[{"name":"books","start":"01M7W78FJBM8T4R7B5N0C1D2E3","position":1,"password":""}]}`,
	} {
		if err := os.WriteFile(c.File, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenConsumers(c); err == nil {
			t.Errorf("opened %s", damaged)
		}
	}
}
