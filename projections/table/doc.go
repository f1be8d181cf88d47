// Package table keeps ordered tables whose newest rows are in memory and whose
// other rows are in one bbolt file.
//
// A change goes to the active rows of its table, in memory. To write the file, DB.Seal freezes the
// active rows of all tables and begins new ones, DB.Write stores the sealed rows in one synced
// transaction, and DB.Drop forgets them. A read looks into the active rows, then the sealed rows,
// then the file; the first layer with the key counts. It holds the lock only while it reads memory,
// never while it reads the file. It sees all changes that were made under one lock, or none of
// them.
//
// A crash loses every change that was not written. The tables are for data that
// can be made again from another source.
//
// The rows in memory are B-trees of tidwall/btree. bbolt alone would cost a
// transaction for every event; Pebble costs as much processor time as these
// layers, but ends the process when it finds corruption, blocks on a full disk
// and adds 15 modules. BenchmarkLive of package projections measures a fold and
// a flush.
//
// # The file
//
// One bucket for each table, named after it, and the bucket "meta", whose key
// "checkpoint" holds the note that DB.Write was given. Every value ends with
// four bytes, the CRC-32C (Castagnoli) of the bucket's name, the key and the
// value before it, because bbolt checksums only its own two meta pages.
package table
