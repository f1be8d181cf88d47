package store

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"
)

// TestSignedOutStaysSignedOut has a request that began before the session was
// signed out and ends after.
func TestSignedOutStaysSignedOut(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "account.db"))
	end := time.Now().Add(time.Hour)
	if err := s.Commit("token", "prj_1", []byte("values"), end); err != nil {
		t.Fatal(err)
	}
	if values, found, err := s.Find("token"); err != nil || !found || string(values) != "values" {
		t.Fatal(values, found, err)
	}
	if err := s.Delete("token"); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit("token", "prj_1", []byte("other values"), end); err != nil {
		t.Fatal(err)
	}
	if _, found, err := s.Find("token"); err != nil || found {
		t.Error("a session that was signed out came back", err)
	}
}

func TestWhatEndedIsCleanedAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := openAt(t, filepath.Join(t.TempDir(), "account.db"))
		s := f
		if err := s.Commit("first", "prj_1", []byte("values"), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if fresh, _, err := f.UseForm("a", time.Now().Add(time.Hour)); err != nil || !fresh {
			t.Fatal(fresh, err)
		}
		if err := f.FormLed("a", "payments/1"); err != nil {
			t.Fatal(err)
		}
		if fresh, path, err := f.UseForm("a", time.Now()); err != nil || fresh || path != "payments/1" {
			t.Fatal(fresh, path, err)
		}
		count := func() (n int) {
			err := f.db.View(func(tx *bolt.Tx) error {
				for _, name := range []string{sessionsBucket, formsBucket} {
					n += tx.Bucket([]byte(name)).Stats().KeyN
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		time.Sleep(time.Hour - time.Second)
		if err := f.Clean(time.Now()); err != nil || count() != 2 {
			t.Fatalf("%d are kept (%v)", count(), err)
		}
		time.Sleep(2 * time.Second)
		if err := s.Commit("second", "prj_1", []byte("values"), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := f.Clean(time.Now()); err != nil || count() != 1 {
			t.Errorf("%d are kept after a new sign-in, want 1 (%v)", count(), err)
		}
	})
}
