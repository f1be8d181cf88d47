package store

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"
)

func TestWhatEndedIsCleanedAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := openAt(t, filepath.Join(t.TempDir(), "account.db"))
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
				n = tx.Bucket([]byte(formsBucket)).Stats().KeyN
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		time.Sleep(time.Hour - time.Second)
		if err := f.Clean(time.Now()); err != nil || count() != 1 {
			t.Fatalf("%d are kept (%v)", count(), err)
		}
		time.Sleep(2 * time.Second)
		if err := f.Clean(time.Now()); err != nil || count() != 0 {
			t.Errorf("%d are kept (%v)", count(), err)
		}
	})
}
