// Package projections keeps the views that reads are answered from: folds of
// the event log, disposable and rebuilt whenever they cannot be trusted.
//
// One goroutine, Engine.Run, follows the store and folds each event into the
// views of all.go; those of payments are told of some hundred payments at once,
// and before anybody reads them. A view is one table of ordered keys. What was
// folded lately stays in memory, decoded, and so do payments that were used
// lately. About once a second what was folded is written, together with the
// position it stands for, in one synced bolt transaction. A crash loses at most
// that tail of the file, and the next Open folds it again from the log.
//
// Reads first wait until the views are at the store's last position as it was
// when they arrived, so they are never stale; one of a single payment or project
// waits for the last position at which the store may have an event of it. A read
// holds the lock only while it looks into memory, never while it touches the
// disk, and sees each event whole or not at all. Payments used lately, projects,
// and payments that the file is known to hold as they are, it finds without the
// lock.
//
// # The file
//
// A bolt file with one bucket per view, named after it, and the bucket "meta".
// Every value ends with four bytes, the CRC-32C (Castagnoli) of the bucket's
// name, the key and the value before it, because bolt checksums only its own
// two meta pages. meta/"checkpoint" holds JSON:
//
//	{"log":…,"views":"payments:1 …","position":88417,"event":…}
//
// log is the id that the event log got when it was made, views the name and
// version of each view, position the last event folded and event its id. A
// file that differs in log or views, is ahead of the log, has another event at
// its position, or is damaged is deleted and rebuilt. A rebuild is written to
// another name and renamed when it is complete, so a part of one is never
// taken for the whole.
package projections
