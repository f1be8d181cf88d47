package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/domain/installation"
	"payledger/notifier/bus"
	"payledger/notifier/health/healthtest"
)

// reader is a program that reads events as a consumer.
type reader struct {
	installation.NewNATSConsumer
	nc     *nats.Conn
	js     jetstream.JetStream
	closed chan struct{}
}

func newConsumer(t *testing.T, s *server, args ...string) installation.NewNATSConsumer {
	t.Helper()
	out, code := payledger(t, append([]string{"nats", "consumer", "create", "--data", s.Data, "--json"}, args...)...)
	if code != 0 {
		t.Fatal(out)
	}
	var c installation.NewNATSConsumer
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return c
}

func connected(t *testing.T, s *server, c installation.NewNATSConsumer) *reader {
	t.Helper()
	r := &reader{NewNATSConsumer: c, closed: make(chan struct{})}
	var err error
	r.nc, err = nats.Connect(s.NATSAddress, nats.UserInfo(c.User, c.Password), nats.CustomInboxPrefix(c.InboxPrefix),
		nats.Timeout(patience), nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(r.closed) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.nc.Close)
	if r.js, err = jetstream.New(r.nc); err != nil {
		t.Fatal(err)
	}
	return r
}

// read takes and acknowledges as many events as are wanted, checks that there are
// no more, and returns them as "POSITION TYPE".
func (r *reader) read(t *testing.T, want int) []string {
	t.Helper()
	var durable jetstream.Consumer
	eventually(t, "the durable consumer exists", func() (ok bool) {
		var err error
		durable, err = r.js.Consumer(t.Context(), r.Stream, r.Durable)
		return err == nil
	})
	var all []string
	for deadline := time.Now().Add(patience); len(all) < want; {
		batch, err := durable.Fetch(want-len(all), jetstream.FetchMaxWait(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			all = append(all, m.Headers().Get("ce-position")+" "+m.Headers().Get("ce-type"))
			if err := m.DoubleAck(healthtest.Within(t)); err != nil {
				t.Fatalf("acknowledging: %v", err)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %v, want %d events", all, want)
		}
	}
	if batch, err := durable.FetchNoWait(100); err == nil {
		for m := range batch.Messages() {
			t.Errorf("one more: %s %s", m.Subject(), m.Headers().Get("ce-position"))
		}
	}
	return all
}

// paymentEvents are the events after a position that a consumer reads from a
// server's log.
func paymentEvents(t *testing.T, s *server, after uint64, project string) (all []string) {
	t.Helper()
	out, code := payledger(t, "events", "tail", "--data", s.Data, "--json")
	if code != 0 {
		t.Fatal(out)
	}
	for line := range strings.Lines(out) {
		var e struct {
			Position uint64
			Event    struct{ Type, Project, Kind string }
		}
		if err := json.Unmarshal([]byte(line), &e, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		if e.Event.Kind == "payment" && e.Position > after && (project == "" || project == e.Event.Project) {
			all = append(all, fmt.Sprintf("%d %s", e.Position, e.Event.Type))
		}
	}
	return all
}

func sameEvents(t *testing.T, what string, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s read\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// readTo reads and acknowledges until the consumer has reached a position, and
// returns the events as read does.
func (r *reader) readTo(t *testing.T, s *server, position string) (all []string) {
	t.Helper()
	durable, err := r.js.Consumer(t.Context(), r.Stream, r.Durable)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); positionOf(t, s, r.Name) != position; {
		batch, err := durable.Fetch(100, jetstream.FetchMaxWait(200*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			all = append(all, m.Headers().Get("ce-position")+" "+m.Headers().Get("ce-type"))
			if err := m.DoubleAck(healthtest.Within(t)); err != nil {
				t.Fatalf("acknowledging: %v", err)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is at %s after %v, want %s", r.Name, positionOf(t, s, r.Name), all, position)
		}
	}
	return all
}

// positionOf is the consumer's position, as the command prints it.
func positionOf(t *testing.T, s *server, name string) string {
	t.Helper()
	out, code := payledger(t, "nats", "consumer", "list", "--data", s.Data)
	if code != 0 {
		t.Fatal(out)
	}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); f[0] == name {
			return f[len(f)-2]
		}
	}
	return ""
}

// consumerAt waits until a consumer has this position.
func consumerAt(t *testing.T, s *server, name string, position string) {
	t.Helper()
	eventually(t, name+" is at "+position, func() bool {
		time.Sleep(200 * time.Millisecond) // each look is a process
		return positionOf(t, s, name) == position
	})
}

// TestDetailsOverNATS has the books of a merchant hear of a paid payment and ask what it was for,
// then hear that this is erased and ask again.
func TestDetailsOverNATS(t *testing.T) {
	t.Parallel()
	s := start(t, "demo", "--data", filepath.Join(t.TempDir(), "d"), "--nats-listen", "127.0.0.1:0")
	shop := connected(t, s, newConsumer(t, s, "shop", "--project", s.ProjectID))
	heard, err := shop.nc.SubscribeSync(bus.PaymentSubjects(s.ProjectID)[0])
	if err == nil {
		err = shop.nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	id := s.do(t, 201, "POST", "/v1/payments", `{"amount":"1500.00","description":"Bouquet for Ann","payload":{"order":7}}`).text(t, "id")
	s.do(t, 200, "POST", "/v1/sandbox/payments/"+id, `{"outcome":"paid"}`)
	asked := func(typ, want string) {
		t.Helper()
		for {
			m, err := heard.NextMsg(patience)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(m.Data, []byte("Bouquet")) {
				t.Errorf("the event tells what the payment is for: %s", m.Data)
			}
			if m.Header.Get("ce-type") == typ && bytes.Contains(m.Data, []byte(id)) {
				break
			}
		}
		m, err := shop.nc.Request(bus.DetailsSubject(s.ProjectID, id), nil, patience)
		if err != nil || !strings.Contains(string(m.Data), want) {
			t.Fatalf("%s, %v, want %s", m.Data, err, want)
		}
	}
	asked(domain.TypePaymentPaid, `"status":"paid","amount":"1500.00","currency":"RUB","description":"Bouquet for Ann","payload":{"order":7}}`)
	s.do(t, 200, "POST", "/v1/payments/"+id+"/erase", `{"reason":"asked to"}`)
	asked(domain.TypePaymentDetailsErased, `"description":null,"payload":{},"erased_at":"`)
}

// TestConsumersOfTheirOwn follows consumers from their creation to their removal.
func TestConsumersOfTheirOwn(t *testing.T) {
	t.Parallel()
	d := filepath.Join(t.TempDir(), "d")
	args := []string{"demo", "--data", d, "--nats-listen", "127.0.0.1:0"}
	s := start(t, args...)
	s.paid(t)
	other := *s
	other.newProject(t)
	other.paid(t)
	s.paid(t)

	books, mail, shop := newConsumer(t, s, "books"), newConsumer(t, s, "mail"), newConsumer(t, s, "shop", "--project", s.ProjectID)
	err := filepath.WalkDir(d, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if content, err := os.ReadFile(path); err == nil && bytes.Contains(content, []byte(books.Password)) {
				t.Errorf("%s has a password", path)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // JetStream replaces files
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	all := paymentEvents(t, s, 0, "")
	booksReader, mailReader := connected(t, s, books), connected(t, s, mail)
	sameEvents(t, "books", booksReader.read(t, len(all)), all)
	sameEvents(t, "mail", mailReader.read(t, len(all)), all)
	own := paymentEvents(t, s, 0, s.ProjectID)
	shopReader := connected(t, s, shop)
	sameEvents(t, "shop", shopReader.read(t, len(own)), own)
	last, _, _ := strings.Cut(all[len(all)-1], " ")
	consumerAt(t, s, "books", last)

	// A change of the consumers affects no other; live events reach this one too.
	live, err := shopReader.nc.SubscribeSync("payledger.v1.events." + s.ProjectID + ".payment.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := shopReader.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	durable, err := mailReader.js.Consumer(t.Context(), mail.Stream, mail.Durable)
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := durable.Messages()
	if err != nil {
		t.Fatal(err)
	}
	newConsumer(t, s, "more")
	other.paid(t)
	if m, err := waiting.Next(jetstream.NextMaxWait(patience)); err != nil || m.Nak() != nil {
		t.Fatalf("a pull that waited: %v", err)
	}
	waiting.Stop()
	s.paid(t)
	for range 2 {
		if m, err := live.NextMsg(patience); err != nil || !strings.Contains(m.Subject, "."+s.ProjectID+".") {
			t.Fatalf("live: %v, %v", m, err)
		}
	}
	more := paymentEvents(t, s, 0, "")[len(all):]
	sameEvents(t, "books", booksReader.read(t, len(more)), more)

	// A reset sends the events after the position again, to this consumer alone.
	if out, code := payledger(t, "nats", "consumer", "reset", "books", "--to", last, "--data", d); code != 0 {
		t.Fatal(out)
	}
	sameEvents(t, "books after the reset", booksReader.read(t, len(more)), more)

	// The positions survive a kill and the loss of JetStream's directory.
	end, _, _ := strings.Cut(more[len(more)-1], " ")
	consumerAt(t, s, "books", end)
	s.kill()
	s = start(t, args...)
	s.paid(t)
	booksReader = connected(t, s, books)
	news := paymentEvents(t, s, 0, "")[len(all)+len(more):]
	end, _, _ = strings.Cut(news[len(news)-1], " ")
	// JetStream does not sync acknowledgements. A kill may lose the last ones; then
	// their events come again after a while.
	got := slices.DeleteFunc(booksReader.readTo(t, s, end), func(e string) bool { return slices.Contains(more, e) })
	sameEvents(t, "books after a kill", got, news)
	unread := append(append([]string(nil), more...), news...)
	s.stops(t)
	if info, err := os.Stat(datadir.Dir(d).Consumers()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v, want mode 0600", info, err)
	}
	removeAll(t, datadir.Dir(d).NATS())
	s = start(t, args...)
	s.paid(t)
	booksReader, mailReader = connected(t, s, books), connected(t, s, mail)
	rest := paymentEvents(t, s, 0, "")[len(all)+len(more)+len(news):]
	sameEvents(t, "books after JetStream was wiped", booksReader.read(t, len(rest)), rest)
	unread = append(unread, rest...)
	sameEvents(t, "mail after JetStream was wiped", mailReader.read(t, len(unread)), unread)

	// A removed consumer is disconnected and cannot connect again; the others can.
	if out, code := payledger(t, "nats", "consumer", "remove", "books", "--data", d); code != 0 {
		t.Fatal(out)
	}
	select {
	case <-booksReader.closed:
	case <-time.After(patience):
		t.Error("the removed consumer stays connected")
	}
	if _, err := nats.Connect(s.NATSAddress, nats.UserInfo(books.User, books.Password), nats.Timeout(patience)); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("the removed consumer connects: %v", err)
	}
	if err := mailReader.nc.FlushTimeout(patience); err != nil {
		t.Errorf("the other one: %v", err)
	}
	again := newConsumer(t, s, "books")
	if again.Password == books.Password {
		t.Error("the same password again")
	}
	whole := paymentEvents(t, s, 0, "")
	sameEvents(t, "a new consumer of the name", connected(t, s, again).read(t, len(whole)), whole)
	if said := s.stderr.String(); strings.Contains(said, again.Password) || strings.Contains(said, "$2a$") {
		t.Error("the log has a password")
	}
}
