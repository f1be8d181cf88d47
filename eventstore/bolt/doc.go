// Package bolt keeps the event log in one bbolt file.
//
// # Durability
//
// One goroutine commits. It takes whatever waits, up to 1024 commits, into
// one bbolt transaction, checks each against the log including what the group
// has staged already, and lets a refused commit fail alone. Results, refusals
// too, are handed out only after the transaction is synced, so nobody acts on
// a record that a crash could take back.
//
// bbolt shows a transaction to its readers before the last sync. Therefore
// the store keeps the last durable position by itself, moves it after the
// sync, and no read shows a record above it.
//
// Any error from a commit is fatal. What is on disk is then unknown, and bbolt
// may show either state; the process must end and the next Open decides.
//
// # The file
//
// Top-level buckets; numbers are big-endian:
//
//	meta              "format" -> "payledger event log 1"
//	                  "log"    -> 16 bytes, the id of this log
//	                  "newest" -> 16 bytes, the greatest event id recorded
//	records           position (8) -> record
//	heads             kind 0x00 id 0x00 project -> position (8) sequence (8) event id (16)
//	                  of the stream's last record, CRC-32C of key and these (4)
//	"claims" + n (8)  idempotency key (32) project -> position (8)
//
// Positions run from 1 without gaps. A record at position p is
//
//	offset  bytes
//	0       4      CRC-32C (Castagnoli) of p as 8 bytes and of bytes 4 to the end
//	4       1      format of the record, 1
//	5       1      flags: bit 0, a claim follows; all others 0
//	6       16     event id
//	22      8      sequence within the stream, from 1
//	30      8      position of the stream's record before, 0 for the first
//	38      64     only with a claim: idempotency key (32), fingerprint (32)
//	…       1+n    project: its length in bytes, then the bytes
//	…       1+n    kind, likewise
//	…       1+n    id, likewise
//	…       rest   body, at least one byte
//
// The records are the truth. A stream is read from its head backwards along
// the positions of the record before. Heads and claims are derived and can be
// checked against the records: see Verify.
//
// Idempotency keys are indexed in buckets of 15 days, numbered by days since
// the Unix epoch divided by 15. A record's bucket is that of the greatest
// event id up to and including it. Buckets are made with their first key, and
// of more than three the oldest is forgotten, so a key is remembered for 30 days
// at least, and no jump of the clock forgets any.
package bolt
