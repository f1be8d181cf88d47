// Package projections follows the event log and keeps the views and the books
// that reads are answered from: folds of the log, disposable, and rebuilt
// whenever they cannot be trusted.
//
// One goroutine, Engine.Run, follows the store and folds each event into the tables of packages
// views and books. About once a second it writes the changed rows, together with the position that
// they reflect, in one synced transaction. A crash loses at most that tail of the file, and the
// next Open folds it again from the log.
//
// A read first waits until the views reflect the store's last position at the time the read began,
// so it is never stale; a read of one payment or project waits only for the last position of that
// payment or project. Package table says what a read sees while events are being folded.
//
// # The file
//
// It is a file of tables as package table describes it. Its note is the
// checkpoint, in JSON:
//
//	{"format":1,"log":…,"position":88417,"event":…}
//
// format is views.Format, log the id of the event log, position the last event folded and event its
// id. A file is deleted and rebuilt if it has another format, older or newer, belongs to another log,
// is ahead of the log, has another event at its position, or is damaged. A rebuild is written to
// another name and renamed when it is complete, so an unfinished file never has the name of a
// complete one.
package projections
