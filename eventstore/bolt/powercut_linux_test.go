package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"payledger/eventstore"
	"payledger/eventstore/storetest"
)

// TestPowerCut cuts the power of a disk under load. Every acknowledged commit is
// there afterwards.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	for _, how := range []storetest.Cut{storetest.CutAtOnce, storetest.CutWithJournal} {
		t.Run(fmt.Sprint(how), func(t *testing.T) {
			t.Parallel()
			disk := storetest.NewDisk(t, 32)
			for round, answers := range []int{1, 2, 3, 5, 8, 20, 50, 100, 200, 400}[:rounds(7, 10)] {
				path := filepath.Join(disk.Dir, fmt.Sprintf("ledger%d.db", round))
				if err := Init(path, logID); err != nil {
					t.Fatal(err)
				}
				l := cutUnderLoad(t, disk, path, how, answers, true)
				l.intact(t, fmt.Sprintf("cut after %d answers", answers), filepath.Join(disk.Dir, filepath.Base(path)))
			}
		})
	}
}

// The control: a store that does not sync loses acknowledged commits.
func TestPowerCutWithoutSync(t *testing.T) {
	t.Parallel()
	disk := storetest.NewDisk(t, 32)
	path := filepath.Join(disk.Dir, "ledger.db")
	if err := Init(path, logID); err != nil {
		t.Fatal(err)
	}
	l := cutUnderLoad(t, disk, path, storetest.CutAtOnce, 300, false)
	l.broken(t, "cut without syncs", filepath.Join(disk.Dir, "ledger.db"))
}

func cutUnderLoad(t *testing.T, disk *storetest.Disk, path string, how storetest.Cut, answers int, sync bool) *load {
	t.Helper()
	s, err := Open(path, Options{MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.file.DB().NoSync, s.file.DB().NoGrowSync = !sync, !sync
	l := newLoad()
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan struct{})
	go func() {
		defer close(written)
		l.write(ctx, s, 8, 1<<16, nil)
	}()
	l.reached(t, answers)
	disk.Cut(how)
	if sync {
		<-s.Fatal()
	}
	stop()
	<-written
	if sync && !errors.As(l.err, new(*eventstore.FatalError)) {
		t.Errorf("writing without power: %v, want a fatal error", l.err)
	}
	_ = s.Close()
	disk.Restore()
	return l
}

// TestPowerCutBeforeTheLastSync cuts the power when a whole group is written and its
// last sync has not begun: no commit of the group may have been acknowledged.
func TestPowerCutBeforeTheLastSync(t *testing.T) {
	t.Parallel()
	disk := storetest.NewDisk(t, 32)
	path := filepath.Join(disk.Dir, "ledger.db")
	if err := Init(path, logID); err != nil {
		t.Fatal(err)
	}
	u := &underTest{t: t, path: path}
	s := u.Open()
	l := newLoad()
	l.write(t.Context(), s, 4, 10, nil)
	c := loadCommit(9, 0, 0)
	l.send(c)
	held, release := u.Stall(s)
	defer release()
	var done sync.WaitGroup
	done.Go(func() {
		if r, err := eventstore.AppendOne(t.Context(), s, c); !errors.As(err, new(*eventstore.FatalError)) {
			t.Errorf("Append = %d, %v, want a fatal error", r.Position, err)
		}
	})
	<-held
	disk.Cut(storetest.CutAtOnce)
	release()
	done.Wait()
	_ = s.Close()
	u.device.close()
	disk.Restore()
	l.intact(t, "cut before the last sync", filepath.Join(disk.Dir, "ledger.db"))
}

// TestPowerCutDuringInit: afterwards there is a whole log, or none, and then Init
// works again. Once Init has returned, there is a log.
func TestPowerCutDuringInit(t *testing.T) {
	t.Parallel()
	disk := storetest.NewDisk(t, 32)
	cuts := rounds(10, 40)
	whole := 0
	for i := range cuts {
		round := i * 40 / cuts
		name := fmt.Sprintf("ledger%d.db", round)
		made := make(chan error, 1)
		began := make(chan struct{})
		dir := disk.Dir
		go func() {
			close(began)
			made <- Init(filepath.Join(dir, name), logID)
		}()
		<-began
		var err error
		if i == 0 {
			err = <-made
			disk.Cut(storetest.CutAtOnce)
		} else {
			waitForFiles(t, dir, name, 2*round)
			disk.Cut(storetest.CutAtOnce)
			err = <-made
		}
		disk.Restore()
		path := filepath.Join(disk.Dir, name)
		if _, statErr := os.Stat(path); errors.Is(statErr, os.ErrNotExist) {
			if err == nil {
				t.Fatalf("round %d: Init had returned, and there is no log", round)
			}
			if err := Init(path, logID); err != nil {
				t.Fatalf("round %d: making it again: %v", round, err)
			}
		} else {
			whole++
		}
		newLoad().intact(t, fmt.Sprintf("round %d", round), path)
	}
	t.Logf("of %d cuts %d left a whole log", cuts, whole)
}

// waitForFiles cuts later in Init each round: it polls the directory this many more
// times after the first file has appeared.
func waitForFiles(t *testing.T, dir, name string, looks int) {
	t.Helper()
	for t.Context().Err() == nil && looks > 0 {
		found, err := filepath.Glob(filepath.Join(dir, name+"*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			looks--
		}
	}
}

// The control: an Init that does not sync is found.
func TestPowerCutDuringInitWithoutSync(t *testing.T) {
	t.Parallel()
	disk := storetest.NewDisk(t, 32)
	content, err := os.ReadFile(newLog(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(disk.Dir, "ledger.db"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	disk.Cut(storetest.CutAtOnce)
	disk.Restore()
	newLoad().broken(t, "making a log without syncs", filepath.Join(disk.Dir, "ledger.db"))
}
