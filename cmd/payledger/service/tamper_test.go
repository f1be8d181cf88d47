package service

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/process"
	"payledger/cmd/payledger/routesfile"
	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/bolt"
	"payledger/eventstore/translog"
	httpadmin "payledger/httpapi/admin"
	"payledger/notifier/health/healthtest"
)

// opens opens a fresh directory as a command does; the test stops its parts. Several goroutines
// write to log.
func opens(t *testing.T, d datadir.Dir, log io.Writer) *app {
	t.Helper()
	a := &app{Options: Options{Log: zerolog.New(log), Stderr: io.Discard}, dir: d, parts: process.NewParts()}
	if err := a.start(t.Context(), a.directory()); err != nil {
		t.Fatal(errors.Join(err, a.parts.Stop()))
	}
	return a
}

func (c *app) register(t *testing.T) eventstore.Position {
	t.Helper()
	id := "prj_" + c.ids.Next().String()
	r, err := eventstore.Execute(t.Context(), c.ledger, eventstore.ProjectStream(id), projects.Project{ID: id},
		projects.ProjectCommand(projects.RegisterProject{Name: "Shop", Settings: domain.DefaultSettings()}),
		eventstore.Order{EventID: c.ids.Next(), New: true})
	if err != nil {
		t.Fatal(err)
	}
	return r.Stored.Position
}

func newDirectory(t *testing.T) datadir.Dir {
	t.Helper()
	d := datadir.Dir(filepath.Join(t.TempDir(), "d"))
	if err := d.Initialise(); err != nil {
		t.Fatal(err)
	}
	return d
}

// grown is a directory whose log has grown to so many events, all of them signed for.
func grown(t *testing.T, d datadir.Dir, events eventstore.Position) datadir.Dir {
	t.Helper()
	c := opens(t, d, io.Discard)
	for c.register(t) < events {
	}
	if err := c.parts.Stop(); err != nil {
		t.Fatal(err)
	}
	return d
}

// tamper writes the log anew with other events, as somebody would who knows
// its format: every checksum, position and head is right.
func tamper(t *testing.T, d datadir.Dir, change func(all []eventstore.Stored) []eventstore.Stored) {
	t.Helper()
	store, err := bolt.OpenReadOnly(d.Ledger())
	if err != nil {
		t.Fatal(err)
	}
	var all []eventstore.Stored
	for r, err := range store.Scan(t.Context(), 0, eventstore.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		r.Body = bytes.Clone(r.Body)
		all = append(all, r)
	}
	log := store.LogID()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(d.Ledger()), os.RemoveAll(d.Claims())); err != nil {
		t.Fatal(err)
	}
	all = change(all)
	_, err = bolt.Build(t.Context(), d.Ledger(), log, func(yield func(eventstore.Stored, error) bool) {
		for i, r := range all {
			r.Position = eventstore.Position(i + 1)
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func altered(at int) func([]eventstore.Stored) []eventstore.Stored {
	return func(all []eventstore.Stored) []eventstore.Stored {
		was := all[at-1].Body
		all[at-1].Body = bytes.Replace(was, []byte("Shop"), []byte("Stop"), 1)
		if bytes.Equal(all[at-1].Body, was) {
			panic("nothing to alter")
		}
		return all
	}
}

// TestTamperedLogIsNotServed: with checksums that are right and projections
// that have not seen it, what was altered or swapped shows at once or soon,
// and nothing is signed meanwhile.
func TestTamperedLogIsNotServed(t *testing.T) {
	t.Parallel()
	const events = 400
	for name, change := range map[string]func([]eventstore.Stored) []eventstore.Stored{
		"the last event altered": altered(events),
		"an event altered":       altered(150),
		"events swapped": func(all []eventstore.Stored) []eventstore.Stored {
			all[100], all[101] = all[101], all[100]
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := grown(t, newDirectory(t), events)
			newest, err := os.ReadFile(d.Checkpoint())
			if err != nil {
				t.Fatal(err)
			}
			tamper(t, d, change)
			said, err := serves(t, d, nil)
			var end *cli.ExitError
			if !errors.As(err, &end) || end.Code != cli.ExitDirectory || !strings.Contains(err.Error(), "the log was altered: its first 400 events") {
				t.Errorf("%v\n%s", err, said)
			}
			if after, err := os.ReadFile(d.Checkpoint()); err != nil || !bytes.Equal(after, newest) {
				t.Errorf("signed after that: %s, %v", after, err)
			}
		})
	}
}

// TestLogWithoutAClaimIsNotServed: a claim stands in a record's header, outside the
// tree; without it, its key would make a second payment.
func TestLogWithoutAClaimIsNotServed(t *testing.T) {
	t.Parallel()
	for name, events := range map[string]eventstore.Position{"in what is looked at first": 8, "among many events": 400} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDirectory(t)
			c := opens(t, d, io.Discard)
			at := c.register(t)
			id, event := c.ids.Pair()
			claim := eventstore.Claim{Key: domain.Digest{1}, Fingerprint: domain.Digest{2}}
			r, err := eventstore.Execute(t.Context(), c.ledger, eventstore.PaymentStream("prj_1", id), domain.Payment{Project: "prj_1", ID: id},
				domain.PaymentCommand(domain.CreatePayment{
					At: domain.IDTime(event), Amount: 100, Currency: domain.DefaultCurrency, Settings: domain.DefaultSettings(),
					Idempotency: &domain.Idempotency{Key: claim.Key, Fingerprint: claim.Fingerprint},
				}), eventstore.Order{EventID: event, Claim: &claim, New: true})
			if err != nil {
				t.Fatal(err)
			}
			for at < events {
				at = c.register(t)
			}
			if err := c.parts.Stop(); err != nil {
				t.Fatal(err)
			}
			tamper(t, d, func(all []eventstore.Stored) []eventstore.Stored {
				all[r.Stored.Position-1].Claim = nil
				return all
			})
			said, err := serves(t, d, nil)
			if end, ok := errors.AsType[*cli.ExitError](err); !ok || end.Code != cli.ExitDirectory || !strings.Contains(err.Error(), "the event at position 2: only one of record and event makes a claim") {
				t.Errorf("%v\n%s", err, said)
			}
		})
	}
}

// serves runs a service on a directory until ready says what to do next. An
// error of ready's is no failure of the service.
func serves(t *testing.T, d datadir.Dir, ready func(at Addresses, log *healthtest.Buffer)) (said string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log healthtest.Buffer
	err = Run(ctx, d, Options{
		Flags:  Flags{Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Sandbox: true, ShutdownTimeout: 10 * time.Minute},
		Routes: routesfile.Source{Sandbox: true}, Log: zerolog.New(&log), Stderr: io.Discard,
	}, func(at Addresses) error {
		if ready != nil {
			ready(at, &log)
			cancel()
		}
		return nil
	})
	return log.String(), err
}

// verified checks a directory as the command does, by the server if one runs.
func verified(t *testing.T, d datadir.Dir) *audit.Report {
	t.Helper()
	e, err := OpenEvidence(t.Context(), string(d), audit.Against{}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	s, err := d.ReadLogKey()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := os.ReadFile(d.Checkpoint())
	if err != nil {
		t.Fatal(err)
	}
	var report *audit.Report
	err = e.Verify(t.Context(), audit.Against{
		Checkpoints: []audit.Checkpoint{{Name: "checkpoint", Signed: string(signed), Beside: true}}, Verifiers: []*translog.Verifier{s.Verifier()},
	}, func(l httpadmin.Line) error {
		if l.Report != nil {
			report = l.Report
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestAlteredBehindTheCheckpoint alters what is signed for by nothing yet and
// was folded before: the projections are made anew from the log.
func TestAlteredBehindTheCheckpoint(t *testing.T) {
	t.Parallel()
	d := grown(t, newDirectory(t), 10)
	older, err := os.ReadFile(d.Checkpoint())
	if err != nil {
		t.Fatal(err)
	}
	grown(t, d, 20)
	if err := os.WriteFile(d.Checkpoint(), older, 0o600); err != nil {
		t.Fatal(err)
	}
	tamper(t, d, altered(16))
	said, err := serves(t, d, nil)
	if err == nil || !strings.Contains(err.Error(), "start again to rebuild it") {
		t.Errorf("%v\n%s", err, said)
	}
	if said, err := serves(t, d, func(Addresses, *healthtest.Buffer) {}); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	if r := verified(t, d); !r.OK() || len(r.Checkpoints) != 1 || r.Checkpoints[0].Size != 20 || r.Checkpoints[0].Outcome != audit.OK {
		t.Errorf("%+v", r)
	}
}

// TestMissingCheckpointIsNoted cuts the log's end off and deletes the
// checkpoint: the next start says so, and verify does from then on.
func TestMissingCheckpointIsNoted(t *testing.T) {
	t.Parallel()
	d := grown(t, newDirectory(t), 20)
	tamper(t, d, func(all []eventstore.Stored) []eventstore.Stored { return slices.Clip(all[:12]) })
	remove := func() {
		if err := os.Remove(d.Checkpoint()); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	noted := func(when string) {
		t.Helper()
		r := verified(t, d)
		if !r.OK() || r.Completeness.Outcome != audit.NotChecked || !strings.Contains(r.Completeness.Reason, "with 12 events") ||
			!strings.Contains(r.Completeness.Reason, "no position is missing now, but the log was opened without its checkpoint 1 times") {
			t.Errorf("%s: %+v", when, r)
		}
	}
	said, err := serves(t, d, func(at Addresses, log *healthtest.Buffer) {
		if s := log.String(); !strings.Contains(s, `"level":"error"`) || !strings.Contains(s, "is missing next to a log of 12 events") {
			t.Error(s)
		}
		if m := metricsAt(t, at.AdminAddress); !strings.Contains(m, "\npayledger_log_checkpoint_missing 1\n") {
			t.Error("no metric says so")
		}
		waitFor(t, "the log is compared", func() bool { return strings.Contains(metricsAt(t, at.AdminAddress), "\npayledger_log_compared 1\n") })
		waitFor(t, "a checkpoint is signed", func() bool { _, err := os.Stat(d.Checkpoint()); return err == nil })
		noted("while it runs")
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	said, err = serves(t, d, func(Addresses, *healthtest.Buffer) {})
	if err != nil || strings.Contains(said, "is missing") {
		t.Errorf("%v, said again:\n%s", err, said)
	}
	noted("afterwards")

	remove()
	var stderr healthtest.Buffer
	m, err := Connect(t.Context(), d, Options{}, &stderr)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil || !strings.Contains(stderr.String(), "is missing next to a log of 12 events") {
		t.Errorf("a command: %v\n%s", err, stderr.String())
	}
}

// metricsAt reads the metrics of a running service.
func metricsAt(t *testing.T, address string) string {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// waitFor waits until ok answers true, which it does soon except on a busy
// machine.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting: %s", what)
		}
	}
}
