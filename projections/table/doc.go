// Package table keeps ordered tables whose newest rows are in memory and whose
// other rows are in one bbolt file.
//
// A change goes to the active rows of its table, in memory. To write the file,
// DB.Seal sets the active rows of all tables aside and begins new ones,
// DB.Write stores the sealed rows in one synced transaction, and DB.Drop forgets
// them. A read asks the active rows, then the sealed rows, then the file; the
// first layer that shows the key counts. It holds the lock only while it looks
// into memory, never while it reads the file, and never sees a part of what was
// changed under one lock.
//
// What is lost in a crash is what was not written: whoever changes the tables
// can repeat it from somewhere else.
//
// # The file
//
// One bucket for each table, named after it, and the bucket "meta", whose key
// "checkpoint" holds the note that DB.Write was given. Every value ends with
// four bytes, the CRC-32C (Castagnoli) of the bucket's name, the key and the
// value before it, because bbolt checksums only its own two meta pages.
package table
