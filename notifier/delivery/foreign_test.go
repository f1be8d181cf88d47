package delivery

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/notifier/delivery/store"
)

// nodes are the lanes of two nodes of a cluster: one leads, and each change of its
// file is in the other's before it is in its own.
type nodes struct {
	*player
	former []func() error // end the engines of nodes that led

	sharing sync.Mutex
	at      store.Place
	follows *store.File
	next    string // path of the file that follows
	lost    bool   // the next node to lead has no file
	terms   int
}

var errEnded = errors.New("another node leads")

// begin makes the node with the file at path lead, and another one follow it.
func (n *nodes) begin() error {
	term := n.terms
	n.lead = func(_ context.Context, f *store.File) error {
		if n.lost {
			if err := f.Update(0, func(x *store.Tx) error { x.SetRequestsUnknown(true); return nil }); err != nil {
				return err
			}
		}
		f.Share(func(entry []byte) (store.Place, error) { return n.share(term, entry) })
		return nil
	}
	if err := n.open(); err != nil {
		return err
	}
	return n.follow()
}

// share is a store.Share of a term.
func (n *nodes) share(term int, entry []byte) (store.Place, error) {
	n.sharing.Lock()
	defer n.sharing.Unlock()
	if term != n.terms {
		return store.Place{}, errEnded
	}
	n.at.Number++
	if n.follows == nil { // the node that leads has not begun to send
		return n.at, nil
	}
	return n.at, n.follows.Apply(n.at, entry)
}

// follow lets another node have a copy of the file and follow.
func (n *nodes) follow() error {
	dir := filepath.Join(n.dir, fmt.Sprint("node", n.terms))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	n.next = filepath.Join(dir, "lanes.db")
	if err := n.copyTo(n.next); err != nil {
		return err
	}
	mark, err := os.ReadFile(n.markPath())
	if err != nil {
		return err
	}
	markPath := filepath.Join(dir, "lanes.mark")
	if err := os.WriteFile(markPath, mark, 0o600); err != nil {
		return err
	}
	n.follows, err = store.Open(context.Background(), store.Options{
		Path: n.next, Mark: markPath, LogID: n.logID, Store: n.ledger.Store, Now: n.now, Log: zerolog.Nop(),
	})
	return err
}

// handOver lets the other node lead. Nobody tells the one before: its requests go on,
// and what it wants to change is refused. lost: the other one has no file.
func (n *nodes) handOver(lost bool) error {
	n.sharing.Lock()
	n.terms++
	err := n.follows.Close(0)
	n.follows = nil
	n.sharing.Unlock()
	if n.lost = lost; lost {
		err = errors.Join(err, os.Remove(n.next))
		n.mu.Lock()
		n.lostAt = time.Now()
		n.mu.Unlock()
	}
	if err != nil {
		return err
	}
	lanes, stop := n.lanes, n.stop
	n.former = append(n.former, func() error {
		if err := stop(); err != nil && !errors.Is(err, errEnded) {
			return err
		}
		if err := lanes.Close(); err != nil && !errors.Is(err, errEnded) {
			return err
		}
		return nil
	})
	n.path, n.older, n.unsynced = n.next, "", ""
	if err := n.begin(); err != nil || !lost {
		return err
	}
	_, n.base, err = n.lanes.Start()
	return err
}

// endAll ends the engines of all nodes.
func (n *nodes) endAll() (err error) {
	for _, end := range append(n.former, n.end, func() error { return n.follows.Close(0) }) {
		err = errors.Join(err, end())
	}
	return err
}

// handedOver plays a script in which nodes take over from each other wherever a
// program would end.
func handedOver(t *testing.T, script []step, opened func(*Lanes)) (faults []string) {
	synctest.Test(t, func(t *testing.T) {
		n := &nodes{player: &player{world: newWorld(t)}}
		for _, name := range []string{"a", "b", "c"} {
			n.endpoint(name)
		}
		play := func() error {
			if err := n.begin(); err != nil {
				return err
			}
			n.run()
			for i, s := range script {
				time.Sleep(s.Pause)
				switch s.What {
				case "restart", "crash", "lose file", "older file":
					if err := n.handOver(s.What == "lose file"); err != nil {
						return fmt.Errorf("step %d: %w", i, err)
					}
					opened(n.lanes)
					n.run()
					if err := n.fanOut(); err != nil {
						return err
					}
				default:
					if err := n.step(s); err != nil {
						return fmt.Errorf("step %d, %+v: %w", i, s, err)
					}
				}
				if len(n.net.found()) > 0 {
					return nil
				}
			}
			time.Sleep(76 * time.Hour)
			return n.finish()
		}
		if err := play(); err != nil {
			n.net.note("%v", err)
		}
		if err := n.endAll(); err != nil {
			n.net.note("at the end: %v", err)
		}
		faults = n.net.found()
	})
	return faults
}

// TestForwardOnlyOnSeveralNodes plays scripts in which nodes take over from each
// other, without a word and while requests of the one before are under way, also where
// nobody has the file of that one.
func TestForwardOnlyOnSeveralNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("plays so much that the race detector itself may give up")
	}
	t.Parallel()
	seeds := uint64(2)
	if os.Getenv("PAYLEDGER_LONG") != "" {
		seeds = 40
	}
	for seed := range seeds {
		if faults := handedOver(t, script(seed, 100), func(*Lanes) {}); len(faults) > 0 {
			t.Fatalf("seed %d: %v", seed, faults)
		}
	}
}

// Whoever does not wait for the requests of the node before goes wrong, with its file and
// without one.
func TestForeignRequestsAreWaitedFor(t *testing.T) {
	if os.Getenv("PAYLEDGER_LONG") == "" {
		t.Skip("it plays until a planted fault shows: run with PAYLEDGER_LONG=1")
	}
	t.Parallel()
	for name, hurry := range map[string]func(*Lanes){
		"those that the file has": func(l *Lanes) { clear(l.underWay) },
		"those of a lost file":    func(l *Lanes) { l.unknown = false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(300) {
				for _, fault := range handedOver(t, script(seed, 100), hurry) {
					if strings.Contains(fault, "while another one was under way") {
						t.Logf("script %d: %s", seed, fault)
						return
					}
				}
			}
			t.Fatal("no script went wrong")
		})
	}
}

// A node that takes over while requests of a lost file are waited for, and one that starts
// again meanwhile, wait the whole time again. Nobody does once one of them has.
func TestUnknownRequestsAreWaitedForAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &nodes{player: &player{world: newWorld(t)}}
		n.endpoint("a")
		n.net.keep = true
		takeOver := func(lost bool) error {
			if err := n.handOver(lost); err != nil {
				return err
			}
			n.run()
			n.payment()
			return n.fanOut()
		}
		sent := func(when string, want int) {
			t.Helper()
			if got := len(n.net.seen()); got != want {
				t.Errorf("%s: %d requests were sent, want %d", when, got, want)
			}
		}
		play := func() error {
			if err := n.begin(); err != nil {
				return err
			}
			n.run()
			if err := takeOver(true); err != nil {
				return err
			}
			time.Sleep(foreignTime - time.Second)
			if err := takeOver(false); err != nil {
				return err
			}
			time.Sleep(foreignTime - time.Second)
			if err := n.end(); err != nil {
				return err
			}
			if err := n.again(); err != nil {
				return err
			}
			time.Sleep(foreignTime - time.Second)
			sent("before the third one has waited", 0)
			time.Sleep(2 * time.Second)
			sent("then", 2)
			if err := takeOver(false); err != nil {
				return err
			}
			time.Sleep(time.Second)
			sent("by the next one, soon", 3)
			return nil
		}
		if err := errors.Join(play(), n.endAll()); err != nil || len(n.net.found()) > 0 {
			t.Errorf("%v, %q", err, n.net.found())
		}
	})
}

// Nodes that take over from each other count the days of an endpoint that fails together.
func TestFailingIsCountedAcrossHandOvers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &nodes{player: &player{world: newWorld(t)}}
		a := n.endpoint("a", domain.KindPaymentPaid)
		n.net.set(a, broken)
		disabled := func() projects.DisabledReason {
			e, _ := n.state().Endpoint(a)
			return e.Disabled
		}
		play := func() error {
			if err := n.begin(); err != nil {
				return err
			}
			n.run()
			for day := range 6 {
				if why := disabled(); day == 4 && why != "" {
					t.Errorf("disabled after four days: %s", why)
				}
				n.paid()
				if err := n.fanOut(); err != nil {
					return err
				}
				time.Sleep(24 * time.Hour)
				if err := n.handOver(false); err != nil {
					return err
				}
				n.run()
			}
			if why := disabled(); why != projects.DisabledFailing {
				t.Errorf("after six days: %q", why)
			}
			return nil
		}
		if err := errors.Join(play(), n.endAll()); err != nil {
			t.Error(err)
		}
	})
}
