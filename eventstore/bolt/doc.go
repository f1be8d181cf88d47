// Package bolt keeps the event log in one bbolt file.
//
// # Durability
//
// One goroutine commits. It writes all commits that wait, a group, in one bbolt transaction, checks
// each against the log and against those of the group before it, and lets a refused commit fail
// alone. Results, also refusals, are returned only after the transaction is synced, so no caller
// acts on a record that a crash could undo. The protocol with its crash points is in write; the
// type groupPolicy decides when a group is committed.
//
// bbolt shows a transaction to its readers before the last sync. Therefore the
// store keeps the last durable position itself, moves it after the sync, and no
// read shows a record after it.
//
// Any error of a commit is fatal. What is on disk is then unknown, and bbolt may
// show either state; the process must end, and the next Open decides.
//
// # The file
//
// Top-level buckets; numbers are big-endian:
//
//	meta              "format" -> "payledger event log " and FormatVersion in two digits
//	                  "log"    -> 16 bytes, the id of this log
//	                  "newest" -> 16 bytes, the greatest event id recorded
//	                  "missing checkpoints" -> none, or up to 32 times the log was opened
//	                              without its checkpoint: last position (8), Unix ms (8)
//	records           position (8) -> record, and its details until they are erased
//	heads             kind 0x00 id 0x00 project -> position (8) sequence (8) event id (16)
//	                  of the stream's last record, CRC-32C of key and these (4)
//
// Positions run from 1 without gaps. The form of a record and of details is in package record.
//
// The records are the truth. A stream is read from its head backwards, from each
// record to the one before it. Heads and claims are derived and can be checked
// against the records: see Verify.
//
// Details are written with their record, and cut off in the transaction of the record which erases
// them. An event commits to them; the bytes of the record, its checksum and its hash are the same with
// and without.
//
// # Replication
//
// In a cluster a group is committed once it is published to the other nodes:
// Options.Publish is called when it is staged. If that fails, the transaction is rolled
// back, and with it the claims that staging put in memory. Other nodes' groups come in
// through Extend, which stages their records as they are, byte for byte, after the same
// checks; details come with their record, unless they were erased before. A file does not know
// whether it is a cluster's. On its own a store leaves the hook empty: it costs a comparison a group.
//
// # Damage
//
// bbolt trusts page numbers, so one wrong bit can make it write over pages in use. Open therefore
// checks everything that the next commits touch (package boltfile): the branches, the list of free
// pages, and all leaves but those of the records. For a file larger than 256 MiB this is done in
// the background: commits wait until it is known which pages are free, and no page that is then in
// use is overwritten before all of them are checked. Damage that is found suspends commits; reads
// continue. Then all records and heads are looked up and read with a tenth of a processor, and
// again every day; damage there is reported.
//
// A group is written only while the file is the one at its path. If it is not, commits are
// suspended, and reads continue: what was answered is in the open file, which Backup copies.
//
// # Idempotency keys
//
// The directory LOG.claims next to LOG.db has the index of all keys, idempotency keys and those
// that are claimed permanently: see package claims. It is derived from the records and can be
// deleted while the store is closed.
package bolt
