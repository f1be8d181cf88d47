package merchant

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A project whose lists take long waits for itself, and no other does.
func TestListsOfAProjectWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lists := places{number: maxLists}
		var mu sync.Mutex
		running, most := 0, 0
		rows := func(project string) Rows[int] {
			return Rows[int]{
				places: lists.of(project),
				next: func(context.Context, int) ([]int, string, error) {
					mu.Lock()
					running++
					most = max(most, running)
					mu.Unlock()
					time.Sleep(time.Second)
					mu.Lock()
					running--
					mu.Unlock()
					return []int{1}, "", nil
				},
			}
		}
		var wg sync.WaitGroup
		begun := time.Now()
		for range 10 * maxLists {
			wg.Go(func() {
				if part, _, err := rows("busy").read(t.Context(), 1); err != nil || len(part) != 1 {
					t.Error(part, err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, _, err := rows("busy").read(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one whose time is over before its turn: %v", err)
		}
		if most != maxLists {
			t.Errorf("%d lists were read at once, want %d", most, maxLists)
		}
		if _, _, err := rows("quiet").read(t.Context(), 1); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != time.Second+time.Millisecond {
			t.Errorf("another project's list took %v", took)
		}
		wg.Wait()
		if took := time.Since(begun); took != 10*time.Second {
			t.Errorf("all took %v", took)
		}
	})
}
