// Package views folds the event log into what reads are answered from: payments
// and their lists, refunds, projects, sums by day, and the hashes of the log's
// Merkle tree. A view is a fold: it knows no clock, no network and no commands,
// so that the same events always lead to the same rows.
//
// The table of payments and the views of events are changed with every event.
// The other views of payments are updated for some hundred changed payments at
// once, and before any of them is read.
//
// A project's id stands in full in the keys of its lists. A number of 4 bytes
// in its place would make the file 14 % smaller (1,969 in place of 2,287 bytes
// for a payment of five events, see BenchmarkRebuild of package projections) and
// every read and write would have to translate it.
package views
