// Package claims is the index of idempotency keys and of permanent claims: it finds the record that
// claimed a key. It is a small log-structured merge tree next to the log's file. Nothing in it is
// forgotten: no clock and no jump of one frees a key, and an entry takes 26 bytes beside a record's
// hundreds.
//
// # Why it is not a bucket of the log's file
//
// Keys are random. In a B+tree each key of a group changes another page: as a bucket of the log's
// transaction the index cost 45 to 72 µs of CPU a payment, here it costs about 1 µs. The library
// Pebble needs 8 to 18 µs to find that a key is not there, this index 0.1 to 0.5 µs with up to 10
// million keys:
//
//	go test -run XXX -bench Claims ./eventstore/bolt/claims
//
// # How it works
//
// The newest claims are in the memtable. Once it has 32,768 claims or covers
// 65,536 records it is sealed, and a goroutine writes it as a table: a file that
// is never changed and covers a part of the log without gaps. Tables are merged
// until each is several times as large as the next newer one, so there are few to
// search, and an entry is written again about as often as the log doubles. Appends
// never wait for this.
//
// The index is derived from the log, and its files cover durable records only.
// Open uses the tables that fit together and to the log (its id, and the event id
// of their last record). The records after them are few and are read again; if
// all tables are gone, as after a restore, those are all records, at about half a microsecond a
// record and one a claim. A table that turns out to be damaged is deleted, and the process
// must end. While a record that may have claimed a key cannot be read, the index
// is incomplete: Find fails for a key that it does not find.
//
// No table has more than 2^24 entries: the filter of a new table takes 27 MB of memory at most.
//
// # Names
//
// An entry has 16 bytes of SHA-256 over the key and its project: 128 bits. Two keys of one project
// with the same name are found after 2^64 hashes on average, by someone who chooses both keys. All
// that a merchant gains from that work is a conflict between two of his own keys: the record that
// Find leads to is read, its whole key differs, and the store reports damage instead of an earlier
// payment. A second key for a given name, such as that of another project, takes 2^128 hashes.
//
// # The files
//
// A table is named after its first and its last position, 16 hexadecimal digits
// each with "-" between. It consists of blocks of 4096 bytes, each ending with
// the CRC-32C of the rest of it. Numbers are big-endian:
//
//	first   "payledger claims 3\n" (19), the log's id (16),
//	        first position (8), last position (8), event id of the record there (16),
//	        number of entries (8), number of the filter's blocks (8)
//	then    170 entries each: name (16) position (8), ordered by name
//	last    63 lines of 64 bytes each: a Bloom filter of the names
//
// The number in the first block is the version of the format. Tables of any other version are
// deleted and rebuilt from the log.
//
// Names are evenly distributed, so a search begins where the name should be: a
// name whose first 8 bytes are the part x of 2^64 is in line x of the filter and
// near block x of the entries. Its bits in the line are the lowest 7 times 9 of its
// last 8 bytes, each the number of a bit, from the lowest of the first byte.
//
// A name of a permanent claim is made without a project.
package claims
