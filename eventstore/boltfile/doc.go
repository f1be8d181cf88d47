// Package boltfile opens and guards every bbolt file of the program. It turns damage of a file into
// an error: bbolt trusts its pages, so a wrong number in one makes it loop, read outside of its
// mapping, hang on a lock after a panic, or overwrite pages that are in use.
//
// # Opening
//
// Open takes the file's lock and checks the pages with ordinary reads before bbolt maps them: both
// copies of the state, the length, and the tree as far as Options say. Damaged content is a
// *DamagedError.
//
// # Use
//
// Panics of bbolt and faults of its mapping (a file that was cut, a disk that cannot read) are
// errors. After one that may have left a lock of bbolt locked the file is broken: every call fails
// at once, and Close only releases the lock of the file.
//
// # The form of a file
//
// Numbers are in the machine's byte order. A file consists of pages; the first
// two hold a header of 16 bytes and a copy of the file's state:
//
//	0 magic (4)  4 version (4)  8 page size (4)  12 flags (4)  16 root (16)
//	32 freelist (8)  40 pages in use (8)  48 transaction (8)  56 FNV-1a of 0…55 (8)
//
// The states of the last two transactions alternate between them. Every other
// page in use is free, or met once on the way from root or freelist. A page,
// with those that follow it as one, has a header of 16 bytes, then elements of
// 16 bytes, then keys and values one after the other in the same order,
// without gaps:
//
//	header   0 page (8)  8 flags (2)  10 elements (2)  12 pages that follow (4)
//	branch   0 key's offset, from the element (4)  4 key's size (4)  8 page below (8)
//	leaf     0 flags (4)  4 key's offset, from the element (4)  8 key's size (4)  12 value's size (4)
//	free     the numbers of free pages (8 each); with 0xffff elements the first one is their number
//
// Only as many pages follow as the content needs. A branch's key is the first key of the page
// below. A bucket is an element with flag 1 in a leaf of the root's tree; its value begins with the
// number of the bucket's root page (8) and a sequence (8), and with number 0 the bucket is a page
// in the rest of the value.
//
// So almost every bit of the structure follows from others, and Check finds what does not fit. It
// does not find damage in the values, which need their own checksums.
//
// Pages, Page and the methods of these read a file without bbolt, as much of
// it as can be read.
package boltfile
