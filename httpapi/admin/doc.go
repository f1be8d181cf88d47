// Package admin is the administration on the unix socket in the data directory:
// projects and keys, books of all projects, backup, verification and replay.
// What it shares with merchants it has the operations of package merchant do.
package admin
