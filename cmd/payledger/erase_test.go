package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/httpapi/wire"
)

// Of so many payments whose details have marks the first are erased: two parts of them under load, the
// others at rest, so that nothing is written over them.
const marked, erased, part = 200, 100, erased / 4

// TestErasedBytesAreGone: a minute after payments were erased, under load and with a crash in the
// middle, no file of the data directory has a byte of what they were for; of all others it is there.
func TestErasedBytesAreGone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, "demo", "--data", dir)
	ids := madeWithMarks(t, func(_ int, path, body string) (answer, error) { return s.send("POST", path, body) })
	if there := marks(t, dir); len(there) != marked {
		t.Fatalf("%d of %d marks are in the files before", len(there), marked)
	}

	load := func(s *server) (stop func()) {
		return underLoad(func(_ int, path, body string) (answer, error) { return s.send("POST", path, body) })
	}
	erase := func(s *server, i int) (answer, error) {
		return s.send("POST", "/v1/payments/"+ids[i]+"/erase", `{"reason":"asked for"}`)
	}
	stop := load(s)
	var done atomic.Int64
	var erasing sync.WaitGroup
	for worker := range 4 {
		erasing.Go(func() {
			for i := worker; i < part; i += 4 {
				if _, err := erase(s, i); err != nil {
					return
				}
				done.Add(1)
			}
		})
	}
	eventually(t, "some are erased", func() bool { return done.Load() >= part/3 })
	s.kill()
	erasing.Wait()
	stop()

	s = start(t, "demo", "--data", dir)
	all := func(to int) {
		for i, a := range inParallel(t, to, 8, func(i int) (answer, error) { return erase(s, i) }) {
			if a.Status != 200 || a.object(t)["description"] != nil {
				t.Errorf("payment %d: %d %s", i, a.Status, a.Body)
			}
		}
	}
	stop = load(s)
	all(2 * part)
	stop()
	all(erased)
	onlyErasedAreGone(t, time.Now().Add(time.Minute), dir)
	s.stops(t)
	onlyErasedAreGone(t, time.Time{}, dir)
	does(t, "verify", "--data", dir)
}

// TestErasedBytesAreGoneOnEveryNode: likewise on three nodes, of which a follower and then the leader
// are killed while payments are erased, and come back.
func TestErasedBytesAreGoneOnEveryNode(t *testing.T) {
	inLong(t)
	t.Parallel()
	n := newNodes(t)
	n.start(t, 0, 1, 2)
	n.project(t)
	post := func(i int, path, body string) (answer, error) {
		a, ok := n.persist(t, i, "POST", path, body)
		if !ok {
			return a, errors.New("no node answers")
		}
		return a, nil
	}
	ids := madeWithMarks(t, post)
	for _, dir := range n.dirs {
		eventually(t, "all marks are in the files of "+dir, func() bool { return len(marks(t, dir)) == marked })
	}

	erase := func(from, to int, done *atomic.Int64) {
		for i, a := range inParallel(t, to-from, 4, func(i int) (answer, error) {
			defer done.Add(1)
			return post(i, "/v1/payments/"+ids[from+i]+"/erase", `{"reason":"asked for"}`)
		}) {
			if a.Status != 200 || a.object(t)["description"] != nil {
				t.Errorf("payment %d: %d %s", from+i, a.Status, a.Body)
			}
		}
	}
	stop := underLoad(post)
	for i, role := range []wire.Role{wire.RoleFollower, wire.RoleLeader} {
		victim := n.leader(t, 0)
		if role == wire.RoleFollower {
			victim = followers(victim)[0]
		}
		var done atomic.Int64
		var erasing sync.WaitGroup
		erasing.Go(func() { erase(i*part, (i+1)*part, &done) })
		eventually(t, "some are erased", func() bool { return done.Load() >= part/3 })
		n.servers[victim].kill()
		erasing.Wait()
		n.start(t, victim)
	}
	stop()
	erase(2*part, erased, new(atomic.Int64))
	eventually(t, "all nodes take part and have come as far", func() bool {
		all, code := n.status(t, 0)
		return code == 0 && all[0].Position == all[1].Position && all[1].Position == all[2].Position
	})
	within := time.Now().Add(time.Minute)
	for _, dir := range n.dirs {
		onlyErasedAreGone(t, within, dir)
	}
	for _, s := range n.servers {
		s.stops(t)
	}
	for _, dir := range n.dirs {
		onlyErasedAreGone(t, time.Time{}, dir)
		does(t, "verify", "--data", dir)
	}
}

// madeWithMarks makes the payments and answers their ids.
func madeWithMarks(t *testing.T, post func(i int, path, body string) (answer, error)) (ids []string) {
	t.Helper()
	for _, a := range inParallel(t, marked, 8, func(i int) (answer, error) {
		return post(i, "/v1/payments", fmt.Sprintf(`{"amount":"1.00","description":"for Marked%03dzq","payload":{"who":"marked%03dzq@example.com"}}`, i, i))
	}) {
		ids = append(ids, a.text(t, "id"))
	}
	return ids
}

// underLoad makes other payments, each client until a request fails, or until stop is called.
func underLoad(post func(i int, path, body string) (answer, error)) (stop func()) {
	var ended atomic.Bool
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() {
			for i := 0; !ended.Load(); i++ {
				if _, err := post(client, "/v1/payments", fmt.Sprintf(`{"amount":"2.00","description":"other %d"}`, i)); err != nil {
					return // killed
				}
			}
		})
	}
	return func() { ended.Store(true); clients.Wait() }
}

// onlyErasedAreGone checks that the files of a directory have no mark of a payment that is erased, at
// a time at the latest, and that its log has all others.
func onlyErasedAreGone(t *testing.T, latest time.Time, dir string) {
	t.Helper()
	left := func() (n int, there map[int][]string) {
		there = marks(t, dir)
		for i := range there {
			if i < erased {
				n++
			}
		}
		return n, there
	}
	n, there := left()
	for ; n > 0 && time.Now().Before(latest); n, there = left() {
		time.Sleep(time.Second)
	}
	for i := range marked {
		if where := there[i]; i < erased && len(where) > 0 || i >= erased && !slices.Contains(where, "ledger.db") {
			t.Errorf("mark %d of %d, of which the first %d are erased, is in %q of %s", i, marked, erased, where, dir)
		}
	}
}

// marks are the numbers of the marks that the files of a directory have, and in which.
func marks(t *testing.T, dir string) map[int][]string {
	t.Helper()
	mark := regexp.MustCompile(`(?i)marked(\d{3})zq`)
	found := make(map[int][]string)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // a file that is gone has nothing
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil //nolint:nilerr // likewise
		}
		seen := make(map[int]bool)
		for _, m := range mark.FindAllSubmatch(b, -1) {
			if n, _ := strconv.Atoi(string(m[1])); !seen[n] {
				seen[n] = true
				found[n] = append(found[n], e.Name())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestDetailsAreKeptForDays: a project says for how many days details are kept, and older ones go by
// themselves.
func TestDetailsAreKeptForDays(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	does(t, "init", "--data", dir)
	store, err := datadir.Dir(dir).Open(bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var now time.Time
	ids, ledger := domain.NewIDs(func() time.Time { return now }, rand.Reader, domain.ID{}), eventstore.Ledger{Store: store, Codec: eventstore.NewCodec()}
	ago := func(days int) { now = time.Now().Add(time.Duration(-24*days) * time.Hour) }
	ago(60)
	project := "prj_" + ids.Next().String()
	for _, c := range []projects.ProjectCommand{
		projects.RegisterProject{Name: "Tea shop", Settings: domain.DefaultSettings()},
		projects.IssueKey{KeyID: "key_1", Hash: projects.HashKey("secret"), Scopes: projects.AllScopes()},
	} {
		if _, err := eventstore.Execute(t.Context(), ledger, eventstore.ProjectStream(project), projects.Project{ID: project}, c, eventstore.Order{EventID: ids.Next()}); err != nil {
			t.Fatal(err)
		}
	}
	create := func(description string) (id string) {
		payment, event := ids.Pair()
		c := domain.CreatePayment{
			At: domain.IDTime(event), Amount: 100, Currency: domain.DefaultCurrency, Settings: domain.DefaultSettings(),
			Link: domain.Link{Base: "https://pay.example.com", KeyVersion: 1, Render: 1},
		}
		if description != "" {
			c.Description = &description
		}
		if _, err := eventstore.Execute(t.Context(), ledger, eventstore.PaymentStream(project, payment), domain.Payment{Project: project, ID: payment},
			domain.PaymentCommand(c), eventstore.Order{EventID: event, New: true}); err != nil {
			t.Fatal(err)
		}
		return payment.String()
	}
	old := make(map[int]string)
	for _, days := range []int{50, 40, 31, 29} {
		ago(days)
		old[days] = create(map[bool]string{false: "Rosen für Ann"}[days == 50])
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	if out, code := payledger(t, "project", "change", project, "--details-retention-days", "3651", "--data", dir); code != 5 || !strings.Contains(out, "at most 3650") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out := does(t, "project", "change", project, "--details-retention-days", "30", "--data", dir); !strings.Contains(out, "is changed") {
		t.Error(out)
	}
	if out := does(t, "project", "list", "--data", dir); !strings.Contains(out, "30d") {
		t.Error(out)
	}
	s := start(t, "serve", "--sandbox", "--data", dir)
	s.ProjectID, s.APIKey = project, "secret"
	fresh := s.do(t, 201, "POST", "/v1/payments", `{"amount":"1.00","description":"Rosen für Ann"}`).text(t, "id")
	has := func(id string) bool {
		return strings.Contains(string(s.do(t, 200, "GET", "/v1/payments/"+id, "").Body), "Rosen")
	}
	eventually(t, "those of 31 and 40 days ago are erased", func() bool { return !has(old[31]) && !has(old[40]) })
	if !has(old[29]) || !has(fresh) {
		t.Error("a payment is erased before its time")
	}
	for days, want := range map[int]int{50: 0, 40: 1, 31: 1, 29: 0} { // that of 50 days ago has nothing to erase
		events := string(s.do(t, 200, "GET", "/v1/payments/"+old[days]+"/events", "").Body)
		if strings.Count(events, `"actor":"retention"`) != want || strings.Count(events, `"reason":"details_retention_days is 30"`) != want {
			t.Errorf("%d days old: want %d events by the retention in %s", days, want, events)
		}
	}
	if audit := does(t, "audit", "--data", dir); len(regexp.MustCompile(`(?m) retention +payment\.details_erased .*details_retention_days is 30`).FindAllString(audit, -1)) != 2 {
		t.Error(audit)
	}
	before := time.Now().Add(-10 * 24 * time.Hour).UTC().Format(time.RFC3339)
	if out := does(t, "erase", "--project", project, "--before", before, "--reason", "by hand", "--data", dir); !strings.Contains(out, "The details of 1 payments are erased.") ||
		strings.Count(out, "Backups that were made before") != 1 {
		t.Error(out)
	}
	if has(old[29]) || !has(fresh) {
		t.Error("erased is not what is older than the time given")
	}
	s.stops(t)
	does(t, "verify", "--data", dir)
}

// TestNotificationAfterErasure: sent again, a notification has null and {}, and a signature that
// subscribers accept.
func TestNotificationAfterErasure(t *testing.T) {
	t.Parallel()
	type notification struct {
		header http.Header
		body   []byte
	}
	heard := make(chan notification, 16)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		heard <- notification{r.Header, body}
	}))
	defer hook.Close()
	s := start(t, "demo", "--data", filepath.Join(t.TempDir(), "data"), "--webhook-allow-private")
	endpoint := s.do(t, 201, "POST", "/v1/webhook-endpoints", `{"url":"`+hook.URL+`"}`)
	judge, err := standardwebhooks.NewWebhook(endpoint.text(t, "secret"))
	if err != nil {
		t.Fatal(err)
	}
	next := func(want string) notification {
		t.Helper()
		select {
		case n := <-heard:
			if err := judge.Verify(n.body, n.header); err != nil || !strings.Contains(string(n.body), want) {
				t.Errorf("%v: %s, want %s", err, n.body, want)
			}
			return n
		case <-time.After(patience):
			t.Fatal("nothing is sent")
		}
		return notification{}
	}
	id := s.do(t, 201, "POST", "/v1/payments", `{"amount":"1.00","description":"Roses for Ann","payload":{"phone":"555"}}`).text(t, "id")
	s.do(t, 200, "POST", "/v1/sandbox/payments/"+id, `{"outcome":"paid"}`)
	first := next(`"description":"Roses for Ann","payload":{"phone":"555"}`)
	s.do(t, 200, "POST", "/v1/payments/"+id+"/erase", `{"reason":"asked to"}`)
	deliveries := "/v1/webhook-endpoints/" + endpoint.text(t, "id") + "/deliveries"
	var event string
	eventually(t, "the delivery is recorded", func() bool {
		list, _ := s.do(t, 200, "GET", deliveries, "").object(t)["data"].([]any)
		if len(list) == 0 {
			return false
		}
		of, _ := list[0].(map[string]any)
		event, _ = of["event_id"].(string)
		return of["state"] == "delivered"
	})
	s.do(t, 202, "POST", deliveries+"/"+event+"/resend", `{}`)
	again := next(`"description":null,"payload":{}`)
	if first.header.Get("Webhook-Id") != again.header.Get("Webhook-Id") || first.header.Get("Webhook-Signature") == again.header.Get("Webhook-Signature") {
		t.Errorf("sent as %v, then as %v", first.header, again.header)
	}
	if strings.Contains(string(again.body), "Roses") || strings.Contains(string(again.body), "555") {
		t.Errorf("%s", again.body)
	}
}
