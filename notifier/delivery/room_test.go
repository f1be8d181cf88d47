package delivery

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
)

// TestFullDisk: while the disk is full nothing is sent, and what was under way
// is noted when there is room again; nothing is lost or sent twice.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	engine(t, func(w *world) { w.log = zerolog.New(zerolog.SyncWriter(&log)) }, func(t *testing.T, w *world) {
		a := w.paidTo(t, "a", late, 1)
		time.Sleep(time.Second) // under way
		w.paid()
		w.spread(t)
		w.full.Store(true)
		time.Sleep(time.Minute)
		if n := len(w.net.seen()); n > 2 {
			t.Errorf("%d requests, want the two that were begun", n)
		}
		if diff := cmp.Diff(map[domain.DeliveryState]int{domain.DeliveryPending: 2}, w.states(t, a)); diff != "" {
			t.Error(diff)
		}
		w.paid()
		w.spread(t)
		_, err := w.lanes.Test(t.Context(), testProject, a)
		if !errors.Is(err, eventstore.ErrFull) {
			t.Errorf("Test on a full disk: %v", err)
		}
		if up := gathered(t, w.sender().metrics.registry, "payledger_webhook_up"); up != 0 {
			t.Errorf("payledger_webhook_up is %v", up)
		}
		w.full.Store(false)
		w.net.set(a, fine)
		w.spread(t)
		time.Sleep(time.Minute)
		if diff := cmp.Diff(map[domain.DeliveryState]int{domain.DeliveryDelivered: 3}, w.states(t, a)); diff != "" {
			t.Error(diff)
		}
		if n := len(w.net.seen()); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
		if up := gathered(t, w.sender().metrics.registry, "payledger_webhook_up"); up != 1 {
			t.Errorf("payledger_webhook_up is %v", up)
		}
	})
	if n := strings.Count(log.String(), "the disk is nearly full"); n != 1 {
		t.Errorf("said %d times: %s", n, &log)
	}
}

// TestFullDiskAtTheEnd: callers that wait for room do not delay the shutdown, and
// a delivery that could not be recorded is sent again.
func TestFullDiskAtTheEnd(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.paidTo(t, "a", late, 1)
		time.Sleep(time.Second)
		w.full.Store(true)
		time.Sleep(time.Minute)
		began := time.Now()
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > shutdownGrace {
			t.Errorf("the end took %v", took)
		}
		w.start(t) // on the full disk
		w.net.set(a, fine)
		time.Sleep(time.Minute)
		if n := len(w.net.seen()); n != 1 {
			t.Errorf("%d requests on a full disk, want the one before", n)
		}
		w.full.Store(false)
		time.Sleep(time.Minute)
		if n := len(w.net.seen()); n != 2 {
			t.Errorf("%d requests, want the one that was not noted again", n)
		}
	})
}

// TestFullDiskWhileNothingIsWanted: what leaves its lane without a request does so once
// there is room again.
func TestFullDiskWhileNothingIsWanted(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.paidTo(t, "a", broken, 3)
		time.Sleep(time.Second)
		w.project(projects.ChangeEndpoint{EndpointID: a, URL: "https://a.example/hooks", Kinds: []domain.Kind{domain.KindPaymentFailed}})
		w.full.Store(true)
		time.Sleep(time.Hour)
		w.full.Store(false)
		time.Sleep(time.Minute)
		if diff := cmp.Diff(map[domain.DeliveryState]int{domain.DeliveryCancelled: 3}, w.states(t, a)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestChanged: a change of an endpoint, or a requested notification, ends a pause
// at once; and the pause was logged.
func TestChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world, endpoint string) error{
		"changed": func(w *world, endpoint string) error {
			w.change(endpoint)
			return nil
		},
		"tested": func(w *world, endpoint string) error {
			_, err := w.lanes.Test(context.Background(), testProject, endpoint)
			return err
		},
		"nothing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			engine(t, func(w *world) { w.log = zerolog.New(zerolog.SyncWriter(&log)) }, func(t *testing.T, w *world) {
				a := w.paidTo(t, "a", broken, 20)
				time.Sleep(6 * time.Hour)
				w.net.set(a, fine)
				time.Sleep(time.Until(w.health(t, a).OpenUntil.Time()) / 2)
				if change != nil {
					if err := change(w, a); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				if open := w.health(t, a).OpenUntil != nil; open != (change == nil) {
					t.Errorf("still paused: %t", open)
				}
			})
			want := 1
			if change == nil {
				want = 0
			}
			if p, r := strings.Count(log.String(), "fails again and again"), strings.Count(log.String(), "takes notifications again"); p != 1 || r != want {
				t.Errorf("said %d and %d times: %s", p, r, &log)
			}
		})
	}
}

// TestRefusedIsSaid once, not for every notification.
func TestRefusedIsSaid(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	engine(t, func(w *world) { w.log = zerolog.New(zerolog.SyncWriter(&log)) }, func(t *testing.T, w *world) {
		a := w.endpoint("a", domain.KindPaymentPaid)
		url := "https://10.1.2.3/hooks?token=hidden"
		w.project(projects.EditEndpoint{EndpointID: a, URL: &url})
		for range 5 {
			w.paid()
		}
		w.spread(t)
		time.Sleep(time.Second)
	})
	if n := strings.Count(log.String(), "are parked"); n != 1 || strings.Contains(log.String(), "hidden") {
		t.Errorf("said %d times: %s", n, &log)
	}
}

// TestAnOldSecretIsMissing: what is signed with the newest secret is sent without the
// signature of one whose master key is lost, and that is said. Nothing is sent without
// the newest.
func TestAnOldSecretIsMissing(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	engine(t, func(w *world) { w.log = zerolog.New(zerolog.SyncWriter(&log)) }, func(t *testing.T, w *world) {
		a := w.endpoint("a", domain.KindPaymentPaid)
		rotate := func(keyVersion int) {
			w.project(projects.RotateSecret{At: domain.InstantOf(w.now()), EndpointID: a, Overlap: time.Hour, KeyVersion: keyVersion})
		}
		for n, keyVersion := range []int{2, 1} {
			rotate(keyVersion)
			w.paid()
			w.spread(t)
			time.Sleep(time.Second)
			if sent := len(w.net.seen()); sent != n {
				t.Fatalf("with the newest secret under key %d: %d requests, want %d", keyVersion, sent, n)
			}
		}
		// Of the first and the third secret.
		if signed := strings.Fields(w.net.seen()[0].header.Get("Webhook-Signature")); len(signed) != 2 {
			t.Errorf("signed with %q", signed)
		}
		w.paid()
		w.spread(t)
		time.Sleep(time.Minute)
		if diff := cmp.Diff(map[domain.DeliveryState]int{domain.DeliveryDelivered: 3}, w.states(t, a)); diff != "" {
			t.Error(diff)
		}
	})
	if n := strings.Count(log.String(), "an old secret"); n != 1 || !strings.Contains(log.String(), "version 2 of the master key") {
		t.Errorf("said %d times: %s", n, &log)
	}
}

// TestDisabledWhilePaused: a disabled endpoint's notifications are held at
// once, whatever they wait for.
func TestDisabledWhilePaused(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.paidTo(t, "a", broken, 1)
		time.Sleep(time.Hour + 30*time.Second)
		w.project(projects.DisableEndpoint{EndpointID: a, Reason: projects.DisabledByRequest})
		time.Sleep(time.Second)
		if diff := cmp.Diff(map[domain.DeliveryState]int{domain.DeliveryHeld: 1}, w.states(t, a)); diff != "" {
			t.Error(diff)
		}
	})
}
