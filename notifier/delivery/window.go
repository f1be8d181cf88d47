package delivery

import (
	"slices"
	"sync"

	"payledger/domain/deliveries"
)

// windowSize bounds how many waiting lanes of an endpoint are in memory.
const windowSize = 512

// window holds the waiting lanes of an endpoint that are due first. Every key
// in the rows that is not above end is in it, or was taken out by pop; the
// keys above end are in the rows alone. Its keys are hints: whether a lane may
// begin is decided by the rows, so one key too many does no harm.
type window struct {
	keys []deliveries.DueKey // rising
	end  deliveries.DueKey
	all  bool // there is nothing above end in the rows

	reading bool                // the rows above end are being read
	late    []deliveries.DueKey // offered meanwhile
}

// read reports whether the rows after a key have to be read for refill.
func (w *window) read(mu *sync.Mutex) (after deliveries.DueKey, needed bool) {
	mu.Lock()
	defer mu.Unlock()
	w.reading = len(w.keys) == 0 && !w.all
	return w.end, w.reading
}

// offer takes in a key that was just folded.
func (w *window) offer(k deliveries.DueKey) {
	if !w.all && k.Compare(w.end) > 0 {
		if w.reading {
			w.late = append(w.late, k)
		}
		return
	}
	i, found := slices.BinarySearchFunc(w.keys, k, deliveries.DueKey.Compare)
	if found {
		return
	}
	w.keys = slices.Insert(w.keys, i, k)
	if len(w.keys) > 2*windowSize {
		w.keys = slices.Clone(w.keys[:windowSize])
		w.end, w.all = w.keys[windowSize-1], false
	}
}

// refill takes in the keys that follow end in the rows, rising; fewer than
// windowSize are all there are.
func (w *window) refill(keys []deliveries.DueKey) {
	if len(keys) > 0 {
		w.keys, w.end = append(w.keys, keys...), keys[len(keys)-1]
	}
	w.all, w.reading = len(keys) < windowSize, false
	late := w.late
	w.late = nil
	for _, k := range late {
		w.offer(k)
	}
}

// pop takes out the first key.
func (w *window) pop() deliveries.DueKey {
	first := w.keys[0]
	w.keys = w.keys[1:]
	return first
}
