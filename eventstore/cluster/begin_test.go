package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
)

// TestWhatIsMadeBeforeLOG: LOG is not made until what has to be there before it is.
func TestWhatIsMadeBeforeLOG(t *testing.T) {
	t.Parallel()
	x, calls := &three{t: t}, 0
	x.prepare = func(ctx context.Context, ledger domain.ID) error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		js, err := jetstream.New(x.conns[0])
		if err != nil {
			return err
		}
		if _, err := js.Stream(ctx, StreamName); !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("looking for LOG: %v", err)
		}
		if ledger != (domain.ID{1, 2, 3}) {
			t.Errorf("it prepares for the ledger %s", ledger)
		}
		return nil
	}
	x.start()
	if calls < 3 {
		t.Errorf("LOG was made after %d calls", calls)
	}
}
