// Package count writes numbers into sentences.
package count

import "fmt"

// Of is a number of things: "1 event", "2 events". The plural has an s.
func Of[N ~int | ~uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
