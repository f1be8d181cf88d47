// Package store is the lane file, lanes.db: which notifications are still to be sent
// and what became of the others. It knows rows and the rules of a lane (Lane), and
// nothing of endpoints' queues, attempts or time.
//
// # The file
//
// It is a bbolt file (see Tables for its buckets) that belongs to one event log.
// The rows of an endpoint lie together. They are written straight to their places:
// as the writer commits at most every 10 ms, a log-structured tree above the file
// saved nothing (BenchmarkDeliveries, 2 cores: 8,200 to 13,600 deliveries a second
// without it, 7,900 to 11,600 with it). bbolt checks nothing but its two meta
// pages, so each value ends with a checksum of itself and its key.
//
// # Trust
//
// The file can be deleted: then the newest event of each payment of the last 30
// days is sent again, and outcomes before it are listed. An older copy must never
// take its place unnoticed, because its marks would be too low and a status could
// move backward. So the file has an epoch, drawn anew at each Open and Close and
// written to the file lanes.mark beside it too. A file that is damaged, or whose
// epoch does not fit the mark, is moved aside and a fresh one is made. A file of
// another format version is refused and left as it is.
package store
