package delivery

import (
	"slices"

	"payledger/notifier/delivery/store"
)

// windowSize bounds how many waiting lanes of an endpoint are in memory.
const windowSize = 512

// window holds the waiting lanes of an endpoint that are due first. Every key
// in the file that is not above end is in it, or was taken out by pop; the
// keys above end are in the file alone. Its keys are hints: whether a lane may
// begin is decided by the file, so one key too many does no harm.
type window struct {
	keys []store.DueKey // rising
	end  store.DueKey
	all  bool // there is nothing above end in the file
}

// offer takes in a key that was just written to the file.
func (w *window) offer(k store.DueKey) {
	if !w.all && k.Compare(w.end) > 0 {
		return
	}
	i, found := slices.BinarySearchFunc(w.keys, k, store.DueKey.Compare)
	if found {
		return
	}
	w.keys = slices.Insert(w.keys, i, k)
	if len(w.keys) > 2*windowSize {
		w.keys = slices.Clone(w.keys[:windowSize])
		w.end, w.all = w.keys[windowSize-1], false
	}
}

// refill takes in the keys that follow end in the file, rising; fewer than
// windowSize are all there are.
func (w *window) refill(keys []store.DueKey) {
	if len(keys) > 0 {
		w.keys, w.end = append(w.keys, keys...), keys[len(keys)-1]
	}
	w.all = len(keys) < windowSize
}

// pop takes out the first key.
func (w *window) pop() store.DueKey {
	first := w.keys[0]
	w.keys = w.keys[1:]
	return first
}
