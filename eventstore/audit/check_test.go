package audit

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestClean is the control of every other test: a log with every event there
// is has no findings.
func TestClean(t *testing.T) {
	t.Parallel()
	w := newWorld(t).lives()
	records := w.records()
	r := w.check(records, w.checkpoint("old", records[:5]), w.checkpoint("empty", nil), w.checkpoint("new", records))
	if len(r.Findings) > 0 || r.Integrity.Outcome != OK || r.Completeness.Outcome != OK || !r.OK() {
		t.Errorf("%+v", r)
	}
	for _, c := range r.Checkpoints {
		if c.Outcome != OK {
			t.Errorf("checkpoint %+v", c)
		}
	}
	if r.Events != uint64(len(records)) || r.Payments != 4 || r.Projects != 1 || r.Root == nil {
		t.Errorf("%+v", r)
	}
}
