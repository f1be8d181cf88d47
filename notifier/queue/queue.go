// Package queue wakes goroutines that wait for work.
package queue

// Poke wakes the reader of a channel that holds one element, or leaves the poke
// that it has not taken yet.
func Poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
