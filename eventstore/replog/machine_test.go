package replog

import (
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"payledger/eventstore/bolt"
)

func long() bool { return os.Getenv("PAYLEDGER_LONG") != "" }

// seeds is how many seeds are played: PAYLEDGER_SEED plays one.
func seeds() (from, to uint64) {
	if one, err := strconv.ParseUint(os.Getenv("PAYLEDGER_SEED"), 10, 64); err == nil {
		return one, one + 1
	}
	if long() {
		return 0, 2_000
	}
	return 0, 200
}

// Whatever goes wrong: nothing acknowledged is lost, nothing is there twice, all
// nodes have the same records at the same positions, and no read and no refusal is
// older than what was known before it was asked for.
func TestSimulation(t *testing.T) {
	t.Parallel()
	from, to := seeds()
	total := newWorld(0, flaw{}).done
	for seed := from; seed < to; seed++ {
		w := newWorld(seed, flaw{})
		w.run(20 * time.Second)
		if w.wrong != "" {
			t.Fatalf("PAYLEDGER_SEED=%d: %s", seed, w.wrong)
		}
		d := w.done
		total.ok += d.ok
		total.replayed += d.replayed
		total.conflicts += d.conflicts
		total.unknown += d.unknown
		total.refused += d.refused
		total.reads += d.reads
		total.refusedReads += d.refusedReads
		total.elections += d.elections
		total.forgotten += d.forgotten
		total.lost += d.lost
		total.copied += d.copied
		total.restored += d.restored
		total.trimmed += d.trimmed
		total.late += d.late
	}
	t.Logf("%+v", total)
	if to-from > 1 && (total.ok < 1000 || total.replayed == 0 || total.conflicts == 0 || total.reads < 1000 || total.forgotten == 0 ||
		total.lost == 0 || total.copied == 0 || total.restored == 0 || total.trimmed == 0 || total.late == 0) {
		t.Errorf("too little happened: %+v", total)
	}
}

// While nothing goes wrong, every read is answered and every command is decided, and
// LOG's leader stays, also when each message and each sync is slow.
func TestQuiet(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		w := newWorld(seed, flaw{})
		w.quiet, w.lag = true, time.Duration(seed%2)*150*time.Millisecond
		w.until(10 * time.Second) // LOG is founded
		before := w.done
		w.until(40 * time.Second)
		d := w.done
		if w.wrong != "" || d.refusedReads > before.refusedReads || d.refused > before.refused || d.unknown > before.unknown ||
			d.elections > before.elections || d.reads < before.reads+10 || d.ok < before.ok+10 {
			t.Errorf("seed %d: %+v, before %+v %s", seed, d, before, w.wrong)
		}
		w.run(41 * time.Second)
		if w.wrong != "" {
			t.Errorf("seed %d: %s", seed, w.wrong)
		}
	}
}

// Where each message and each sync takes long one of the nodes comes to lead, and stays.
func TestSlow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		w := newWorld(seed, flaw{})
		w.quiet, w.lag = true, time.Duration(1+seed%3)*500*time.Millisecond
		w.until(5 * time.Minute)
		before := w.done
		w.until(10 * time.Minute)
		if d := w.done; w.wrong != "" || d.elections > before.elections || d.reads < before.reads+10 || d.ok < before.ok+10 {
			t.Errorf("seed %d: %+v, before %+v %s", seed, d, before, w.wrong)
		}
	}
}

// Each rule is needed: without it a promise is broken within some hundred seeds.
func TestFlaws(t *testing.T) {
	t.Parallel()
	for what, f := range map[string]flaw{
		"a failed publication taken for a refusal":   {refusedByError: true},
		"two groups in flight":                       {twoInFlight: true},
		"reads without a barrier":                    {noBarrier: true},
		"a barrier that serves later reads":          {lateRiders: true},
		"a follower that answers by itself":          {byItself: true},
		"a group of an older incarnation of LOG":     {anyIncarnation: true},
		"a gap that is skipped":                      {gapSkipped: true},
		"a leader that does not ask its peers":       {unasked: true},
		"a longer file that is ignored":              {longerIgnored: true},
		"a nonce that is used again for other bytes": {nonceReused: true},
		"one peer's answer where LOG is empty":       {oneOfEmpty: true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(1000) {
				w := newWorld(seed, f)
				w.run(20 * time.Second)
				if w.wrong != "" {
					t.Logf("seed %d: %s", seed, w.wrong)
					return
				}
			}
			t.Error("no seed shows it")
		})
	}
}

// A node whose file is not a part of LOG's history takes no part any more: what waits is
// refused, it answers no peer, and LOG gets another leader.
func TestDiverged(t *testing.T) {
	t.Parallel()
	m := newMachine("A", []string{"B"}, [8]byte{1}, bolt.Tip{Last: 5})
	for _, e := range []event{heard{log: "x", last: 1, leader: "A"}, fed{place{"x", 1}, &Group{}}, applied{place{"x", 1}, bolt.Tip{Last: 5}, bolt.Tip{Last: 5}, nil}} {
		m.step(time.Second, e)
	}
	m.step(time.Second, answered{"B", m.term, &bolt.Tip{}})
	if m.flight == nil || !m.flight.barrier {
		t.Fatalf("it does not become the leader: %+v", m)
	}
	m.step(time.Second, accepted{m.flight.group.Nonce, 2})
	m.step(time.Second, reading{7})
	m.step(time.Second, staged{bolt.Batch{After: bolt.Tip{Last: 5}}})
	if m.flight == nil || m.staged == nil || !m.ready {
		t.Fatalf("it is not the leader: %+v", m)
	}
	m.step(time.Second, fed{place{"x", 3}, &Group{}})
	why := &bolt.DivergedError{At: 4}
	got := m.step(time.Second, applied{place: place{"x", 3}, err: why})
	if want := []effect{stop{why}, stepDown{}}; !reflect.DeepEqual(got, want) {
		t.Errorf("it stops with %v, want %v", got, want)
	}
	for _, c := range []struct {
		event event
		want  []effect
	}{
		{staged{}, []effect{decide{}}},
		{reading{8}, []effect{serve{8, true}}},
		{asked{9, "x"}, []effect{answer{9, nil}}},
		{fed{place{"x", 3}, &Group{}}, nil},
		{heard{log: "x", last: 3, leader: "A"}, nil},
	} {
		if got := m.step(time.Second, c.event); !reflect.DeepEqual(got, c.want) {
			t.Errorf("stopped, %T leads to %v, want %v", c.event, got, c.want)
		}
	}
}

// A leader that cannot do its work gives up within a moment, however many reads it serves.
func TestUnfitLeaderServesReads(t *testing.T) {
	t.Parallel()
	m := newMachine("A", []string{"B"}, [8]byte{1}, bolt.Tip{Last: 5})
	m.step(0, heard{log: "x", last: 1, leader: "A"})
	m.step(0, fed{place{"x", 1}, &Group{}})
	m.step(0, applied{place{"x", 1}, bolt.Tip{Last: 5}, bolt.Tip{Last: 5}, nil})
	m.step(0, answered{"B", m.term, &bolt.Tip{}})
	read := func(now time.Duration) (out []effect) {
		out = append(m.step(now, reading{uint64(now)}), m.step(now, tick{})...)
		if m.flight != nil {
			out = append(out, m.step(now, accepted{m.flight.group.Nonce, m.flight.expects.seq + 1})...)
		}
		return out
	}
	for now := time.Duration(0); now < time.Minute; now += 50 * time.Millisecond {
		if now == 30*time.Second {
			m.step(now, fitness{unfit: true})
		}
		for _, x := range read(now) {
			if _, ok := x.(stepDown); !ok {
				continue
			}
			if after := now - 30*time.Second; after < 0 || after > patience+100*time.Millisecond {
				t.Errorf("it gives up %v after it has become unfit", after)
			}
			return
		}
	}
	t.Error("it does not give up")
}
