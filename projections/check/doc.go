// Package check folds the log again, to compare the result with the views' file or to see a past
// state. It trusts only the log.
package check
