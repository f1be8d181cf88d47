package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"payledger/domain"
	"payledger/eventstore/bolt"
	"payledger/eventstore/boltfile"
)

// dataDir is a data directory:
//
//	ledger.db              the event log; its lock is the directory's lock
//	ledger.claims/         where keys and references stand in the log, derived from it
//	lanes.db               what of each notification is to be sent, was sent and came of it
//	lanes.mark             tells lanes.db from an older copy of itself
//	projections.db         folds of the log, disposable
//	account.db             sessions of the account and when API keys were used, disposable
//	master.key             the master keys, one "VERSION HEX" a line, newest last
//	log.key                the key that the log's checkpoints are signed with
//	checkpoint             the newest signed checkpoint
//	nats/                  the embedded JetStream, derived from the log
//	nats-credentials.json  passwords of subscribers and connectors
//	admin.sock             the running server's admin socket
//	demo.json              the demo's project and newest key
type dataDir string

func (d dataDir) ledger() string      { return filepath.Join(string(d), "ledger.db") }
func (d dataDir) claims() string      { return filepath.Join(string(d), "ledger.claims") }
func (d dataDir) projections() string { return filepath.Join(string(d), "projections.db") }
func (d dataDir) lanes() string       { return filepath.Join(string(d), "lanes.db") }
func (d dataDir) lanesMark() string   { return filepath.Join(string(d), "lanes.mark") }
func (d dataDir) account() string     { return filepath.Join(string(d), "account.db") }
func (d dataDir) masterKey() string   { return filepath.Join(string(d), "master.key") }
func (d dataDir) logKey() string      { return filepath.Join(string(d), "log.key") }
func (d dataDir) checkpoint() string  { return filepath.Join(string(d), "checkpoint") }
func (d dataDir) nats() string        { return filepath.Join(string(d), "nats") }
func (d dataDir) credentials() string { return filepath.Join(string(d), "nats-credentials.json") }
func (d dataDir) socket() string      { return filepath.Join(string(d), "admin.sock") }
func (d dataDir) demo() string        { return filepath.Join(string(d), "demo.json") }

// initialise makes the directory, which may exist if it is empty. The log
// comes last, under its final name only when it is whole: a directory without
// it is not a data directory yet, and initialising it again goes on.
func (d dataDir) initialise() error {
	if _, err := os.Stat(d.ledger()); err == nil {
		return exitWith(exitDirectory, "%s is a data directory already: its ledger.db was left as it is", d)
	}
	if err := sweep(string(d)); err != nil {
		return exitWith(exitDirectory, "%w", err)
	}
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return exitWith(exitDirectory, "looking into %s: %w", d, err)
	}
	for _, e := range entries {
		if n := e.Name(); !strings.HasPrefix(n, "master.key") && !strings.HasPrefix(n, "log.key") && !strings.HasPrefix(n, "ledger.db") && !strings.HasPrefix(n, "checkpoint") {
			return exitWith(exitDirectory, "%s holds other files (%s): choose a new or empty directory", d, n)
		}
	}
	if err := makeDirSynced(filepath.Clean(string(d))); err != nil {
		return exitWith(exitDirectory, "making %s: %w", d, err)
	}
	// One that was there was empty, so it is ours alone from now on.
	_ = os.Chmod(string(d), 0o700) //nolint:gosec // a directory; where somebody else owns it its mode must do
	if err := d.mustBePrivate(); err != nil {
		return err
	}
	if _, err := os.Stat(d.masterKey()); errors.Is(err, fs.ErrNotExist) {
		var key [32]byte
		rand.Read(key[:])
		if err := writeFileSynced(d.masterKey(), []byte("1 "+hex.EncodeToString(key[:])+"\n")); err != nil {
			return exitWith(exitDirectory, "making the master key: %w", err)
		}
	}
	id, err := d.plannedLogID()
	if err != nil {
		return err
	}
	if id.IsZero() {
		id = domain.NewIDs(time.Now, rand.Reader, domain.ID{}).Next()
		if err := d.makeLogKey(id); err != nil {
			return exitWith(exitDirectory, "making the log's key: %w", err)
		}
	}
	if err := d.signEmpty(); err != nil {
		return exitWith(exitDirectory, "signing the first checkpoint: %w", err)
	}
	if err := bolt.Init(d.ledger(), id); err != nil {
		return exitWith(exitDirectory, "making the event log: %w", err)
	}
	return nil
}

// mustExist refuses what is no data directory.
func (d dataDir) mustExist() error {
	if _, err := os.Stat(string(d)); errors.Is(err, fs.ErrNotExist) {
		return exitWith(exitDirectory, "the data directory %s does not exist: make it with \"payledger init --data %s\"", d, d)
	}
	if _, err := os.Stat(d.ledger()); errors.Is(err, fs.ErrNotExist) {
		if saved, err := filepath.Glob(d.ledger() + ".saved-*"); err == nil && len(saved) > 0 {
			newest := saved[len(saved)-1]
			return exitWith(exitDirectory, "%s is gone, and was saved as %s by the server that ran then: move that there", d.ledger(), newest)
		}
		return exitWith(exitDirectory, "%s is not a data directory, it has no ledger.db: make one with \"payledger init --data DIR\"", d)
	}
	return nil
}

// mustBePrivate refuses a directory in which others can replace files, the log
// and the keys among them. Others may look into it: whatever is made there is
// for its owner alone, whatever the umask is.
func (d dataDir) mustBePrivate() error {
	info, err := os.Stat(string(d))
	if err != nil {
		return exitWith(exitDirectory, "%w", err)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return exitWith(exitDirectory, "other users can write to the data directory %[1]s (mode %#[2]o), so they can replace the log and its keys: "+
			"run \"chmod go-w %[1]s\", or use a directory inside it that only you can write to", d, mode)
	}
	return nil
}

// open opens the event log and with it locks the directory.
func (d dataDir) open(o bolt.Options) (*bolt.Store, error) {
	if err := d.mustExist(); err != nil {
		return nil, err
	}
	if err := d.mustBePrivate(); err != nil {
		return nil, err
	}
	store, err := bolt.Open(d.ledger(), o)
	switch {
	case errors.Is(err, bolt.ErrLocked):
		return nil, exitWith(exitInUse, "the data directory %s is in use by another payledger process", d)
	case err != nil:
		return nil, exitWith(exitDirectory, "opening the event log: %w", err)
	}
	if err := sweep(string(d), d.files()...); err != nil {
		return nil, errors.Join(exitWith(exitDirectory, "%w", err), store.Close())
	}
	return store, nil
}

// masterKeys reads the keys by version, and the version in use.
func (d dataDir) masterKeys() (keys map[int][32]byte, current int, err error) {
	b, err := os.ReadFile(d.masterKey())
	if err != nil {
		return nil, 0, exitWith(exitDirectory, "the master key is missing: payment links cannot be read without it; restore it from your backup: %w", err)
	}
	keys = make(map[int][32]byte)
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		v, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		version, err := strconv.Atoi(v)
		key, hexErr := hex.DecodeString(text)
		if err != nil || hexErr != nil || version < 1 || len(key) != 32 {
			return nil, 0, exitWith(exitDirectory, "%s, line %d: want a version and 64 hexadecimal digits; restore the file from your backup", d.masterKey(), i+1)
		}
		keys[version], current = [32]byte(key), version
	}
	return keys, current, nil
}

// writeFileSynced writes a private file under another name, syncs it and
// renames it, so that name holds either nothing, the old or the new content.
// What a killed process leaves of it is swept.
func writeFileSynced(name string, content []byte) error {
	f, err := createUnfinished(name)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone after the rename
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return boltfile.SyncDir(filepath.Dir(name))
}

// makeDirSynced makes a private directory and what is missing above it. Each
// stays there once this has returned.
func makeDirSynced(name string) error {
	parent := filepath.Dir(name)
	err := os.Mkdir(name, 0o700)
	if errors.Is(err, fs.ErrNotExist) && parent != name {
		if err := makeDirSynced(parent); err != nil {
			return err
		}
		err = os.Mkdir(name, 0o700)
	}
	existed := errors.Is(err, fs.ErrExist)
	if err != nil && !existed {
		return err
	}
	// One that is there may have been made by an attempt that was cut short;
	// or its parent is not ours to read.
	if err := boltfile.SyncDir(parent); err != nil && (!existed || !errors.Is(err, fs.ErrPermission)) {
		return err
	}
	return nil
}
