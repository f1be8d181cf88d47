package service

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"payledger/cmd/payledger/routesfile"
	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/eventstore/memory"
)

// TestReloadWaitsForNoLog: routes are taken while the log decides nothing, as that of a leader that is cut
// off, and they are recorded once it does, with who asked for them.
func TestReloadWaitsForNoLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "routes.json")
		rules := func(route string) {
			if err := os.WriteFile(file, []byte(`[{"route":"`+route+`"}]`), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		rules("first")
		store := memory.New()
		acts, err := openActLog(t.Context(), eventstore.Ledger{Store: store, Codec: eventstore.NewCodec()}, domain.NewIDs(time.Now, rand.Reader, domain.ID{}))
		if err != nil {
			t.Fatal(err)
		}
		r, err := openRoutes(Options{Routes: routesfile.Source{File: file, Types: routesfile.Types()}}, nil, acts)
		if err != nil {
			t.Fatal(err)
		}
		r.loaded = func() {}
		ctx, cancel := context.WithCancel(t.Context())
		_, release := store.Stall()
		go func() { _ = r.recordUse(ctx) }() // it cannot record the first routes
		synctest.Wait()
		release()
		synctest.Wait()

		_, release = store.Stall()
		rules("second")
		began := time.Now()
		all, err := r.Reload(ctx, eventstore.Cause{Actor: "operator:olga"})
		if err != nil || len(all) != 2 || all[1].Route != "second" || time.Since(began) > readTime {
			t.Errorf("after %v: %v, %v", time.Since(began), all, err)
		}
		release()
		synctest.Wait()
		last := func() (of eventstore.Stored) {
			for e, err := range store.Scan(ctx, 0, eventstore.Filter{}) {
				if of = e; err != nil {
					t.Fatal(err)
				}
			}
			return of
		}()
		if typ, err := eventstore.TypeOf(last.Body); err != nil || typ != installation.TypeRoutesLoaded || last.Position != 2 || !bytes.Contains(last.Body, []byte("operator:olga")) {
			t.Errorf("position %d: %s, %v", last.Position, last.Body, err)
		}
		cancel()
		synctest.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
