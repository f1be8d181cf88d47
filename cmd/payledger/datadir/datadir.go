// Package datadir is what lies in a data directory: names of files, keys,
// locks, the admin socket, and how files are written so that a crash leaves
// the old content or the new.
package datadir

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/translog"
)

// Dir is a data directory:
//
//	ledger.db              the event log; its lock is the directory's lock
//	ledger.claims/         index of idempotency keys and references, derived from the log
//	projections.db         folds of the log, disposable
//	key-times.json         when API keys were used last, disposable
//	master.key             the master keys, one "VERSION HEX" a line, newest last
//	log.key                the key that the log's checkpoints are signed with
//	checkpoint             the newest signed checkpoint
//	nats/                  the embedded JetStream, derived from the log
//	cluster.json           the node of a cluster that the directory is, and the other nodes
//	cluster.key            the secret by which the nodes know each other
//	witness.key            the key with which the node co-signs checkpoints
//	nats-cluster/          the embedded JetStream of a node, LOG among it
//	nats-credentials.json  passwords of subscribers and connectors
//	nats-consumers.json    how far consumers with credentials of their own got
//	admin.sock             the running server's admin socket
//	demo.json              the demo's project and newest key
type Dir string

// Ledger is the path of the event log.
func (d Dir) Ledger() string { return filepath.Join(string(d), "ledger.db") }

// Claims is the path of the index of keys and references.
func (d Dir) Claims() string { return filepath.Join(string(d), "ledger.claims") }

// Projections is the path of the projections.
func (d Dir) Projections() string { return filepath.Join(string(d), "projections.db") }

// KeyTimes is the path of the times of use of API keys.
func (d Dir) KeyTimes() string { return filepath.Join(string(d), "key-times.json") }

// MasterKey is the path of the master keys.
func (d Dir) MasterKey() string { return filepath.Join(string(d), "master.key") }

// LogKey is the path of the key that signs checkpoints.
func (d Dir) LogKey() string { return filepath.Join(string(d), "log.key") }

// Checkpoint is the path of the newest checkpoint.
func (d Dir) Checkpoint() string { return filepath.Join(string(d), "checkpoint") }

// NATS is the path of the directory of the embedded JetStream.
func (d Dir) NATS() string { return filepath.Join(string(d), "nats") }

// Cluster is the path of what makes the directory a node of a cluster.
func (d Dir) Cluster() string { return filepath.Join(string(d), "cluster.json") }

// ClusterKey is the secret by which the nodes of a cluster know each other.
func (d Dir) ClusterKey() string { return filepath.Join(string(d), "cluster.key") }

// WitnessKey is the key with which a node co-signs checkpoints. No other node has it.
func (d Dir) WitnessKey() string { return filepath.Join(string(d), "witness.key") }

// ClusterNATS is the path of the directory of a node's JetStream. A standalone JetStream cannot
// become a member of a cluster, and keeps its own directory.
func (d Dir) ClusterNATS() string { return filepath.Join(string(d), "nats-cluster") }

// Clustered reports whether the directory is a node of a cluster.
func (d Dir) Clustered() bool { return Exists(d.Cluster()) }

// Credentials is the path of the passwords of NATS clients.
func (d Dir) Credentials() string { return filepath.Join(string(d), "nats-credentials.json") }

// Consumers is the path of the NATS consumers and their positions.
func (d Dir) Consumers() string { return filepath.Join(string(d), "nats-consumers.json") }

func (d Dir) socket() string { return filepath.Join(string(d), "admin.sock") }

// Demo is the path of the demo's state.
func (d Dir) Demo() string { return filepath.Join(string(d), "demo.json") }

// Restored is the path of the note that the log was restored.
func (d Dir) Restored() string { return filepath.Join(string(d), "restored.json") }

// Files are the paths of everything that a data directory may hold.
func (d Dir) Files() []string {
	return []string{
		d.Ledger(), d.MasterKey(), d.LogKey(), d.Checkpoint(), d.Projections(), d.NATS(), d.Credentials(), d.Consumers(),
		d.Claims(), d.KeyTimes(), d.socket(), d.Demo(), d.Restored(), d.Cluster(), d.ClusterKey(), d.WitnessKey(), d.ClusterNATS(),
	}
}

// HoldsOnly refuses a directory, which need not exist, with others than these files, finished or not.
// choose is what to name instead.
func (d Dir) HoldsOnly(files []string, choose string) error {
	if err := Sweep(string(d)); err != nil {
		return cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cli.Errorf(cli.ExitDirectory, "looking into %s: %w", d, err)
	}
	for _, e := range entries {
		if !slices.ContainsFunc(files, func(own string) bool { return strings.HasPrefix(e.Name()+".", filepath.Base(own)+".") }) {
			return cli.Errorf(cli.ExitDirectory, "%s holds other files (%s): choose %s", d, e.Name(), choose)
		}
	}
	return nil
}

// Initialise makes the directory, which may exist if it is empty. The log comes last, under its
// final name only when it is whole: a directory without it is not a data directory yet, and
// initialising it again continues, with the keys that are there.
func (d Dir) Initialise() error {
	if err := d.Make("master.key", "log.key", "checkpoint"); err != nil {
		return err
	}
	held, err := holdUnfinished(string(d))
	if err != nil {
		return cli.Errorf(cli.ExitInUse, "another payledger makes %s: %w", d, err)
	}
	defer held.Close() //nolint:errcheck // only locked
	if _, err := os.Stat(d.MasterKey()); errors.Is(err, fs.ErrNotExist) {
		var key [32]byte
		rand.Read(key[:])
		if err := WriteFileSynced(d.MasterKey(), []byte("1 "+hex.EncodeToString(key[:])+"\n")); err != nil {
			return cli.Errorf(cli.ExitDirectory, "making the master key: %w", err)
		}
	}
	if !Exists(d.LogKey()) {
		if err := d.makeLogKey(domain.NewIDs(time.Now, rand.Reader, domain.ID{}).Next(), func(string) error { return nil }); err != nil {
			return cli.Errorf(cli.ExitDirectory, "making the log's key: %w", err)
		}
	}
	s, err := d.ReadLogKey()
	if err != nil {
		return err
	}
	id, ok := translog.LogOf(s.Origin())
	if !ok {
		return cli.Errorf(cli.ExitDirectory, "%s is not the key of a log of payledger, but of %s: choose a new or empty directory", d.LogKey(), s.Origin())
	}
	var empty translog.Edge // so that there is a checkpoint as long as there is a log
	signed, err := s.Sign(translog.Checkpoint{Origin: s.Origin(), Root: empty.Root()})
	if err == nil {
		err = WriteFileSynced(d.Checkpoint(), signed)
	}
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "signing the first checkpoint: %w", err)
	}
	if err := bolt.Init(d.Ledger(), id); err != nil {
		return cli.Errorf(cli.ExitDirectory, "making the event log: %w", err)
	}
	return nil
}

// Make makes a private directory for a log, which is to come last. It may exist if it
// is empty but for these files, which an earlier attempt has left, and an unfinished
// log.
func (d Dir) Make(left ...string) error {
	if _, err := os.Stat(d.Ledger()); err == nil {
		return cli.Errorf(cli.ExitDirectory, "%s is a data directory already: its ledger.db was left as it is", d)
	}
	if err := d.HoldsOnly(append(left, "ledger.db"), "a new or empty directory"); err != nil {
		return err
	}
	if err := makeDirSynced(filepath.Clean(string(d))); err != nil {
		return cli.Errorf(cli.ExitDirectory, "making %s: %w", d, err)
	}
	// It is empty, so no other user needs access to it.
	_ = os.Chmod(string(d), 0o700) //nolint:gosec // a directory; if it has another owner, its mode is checked next
	return d.mustBePrivate()
}

// MustExist fails unless d is a data directory.
func (d Dir) MustExist() error {
	info, err := os.Stat(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Errorf(cli.ExitDirectory, "the data directory %s does not exist: make it with \"payledger init --data %s\"", d, d)
	}
	if err == nil && !info.IsDir() {
		return cli.Errorf(cli.ExitDirectory, "%s is not a directory: name the one that holds ledger.db, or a bundle or backup with --file", d)
	}
	switch _, err = os.Stat(d.Ledger()); {
	case errors.Is(err, fs.ErrPermission):
		return cli.Errorf(cli.ExitDirectory, "looking for the event log: %w", err)
	case errors.Is(err, fs.ErrNotExist) && d.Clustered():
		return cli.Errorf(cli.ExitDirectory, "%[1]s has no ledger.db: \"payledger serve --data %[1]s\" takes it from another node", d)
	case errors.Is(err, fs.ErrNotExist):
		return cli.Errorf(cli.ExitDirectory, "%s is not a data directory, it has no ledger.db: make one with \"payledger init --data DIR\"", d)
	}
	return nil
}

// mustBePrivate refuses a directory in which others can replace files, the log and the keys among
// them. Others may list it: its files are created for the owner only, regardless of the umask.
func (d Dir) mustBePrivate() error {
	info, err := os.Stat(string(d))
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return cli.Errorf(cli.ExitDirectory, "other users can write to the data directory %[1]s (mode %#[2]o), so they can replace the log and its keys: "+
			"run \"chmod go-w %[1]s\", or use a directory inside it that only you can write to", d, mode)
	}
	return d.MustBeOwn()
}

// MustBeOwn refuses root the log of another user, or the directory for one, who could not open what
// root makes in it. Neither need exist.
func (d Dir) MustBeOwn() error {
	for _, name := range []string{d.Ledger(), string(d)} {
		info, err := os.Stat(name)
		if err != nil {
			continue
		}
		of, known := info.Sys().(*syscall.Stat_t)
		if !known || of.Uid == 0 || os.Geteuid() != 0 {
			return nil
		}
		uid := strconv.FormatUint(uint64(of.Uid), 10)
		as := "sudo -u '#" + uid + "'"
		if u, err := user.LookupId(uid); err == nil {
			as = "runuser -u " + u.Username + " --"
		}
		return cli.Errorf(cli.ExitDirectory, "%s belongs to another user, who could not open what root writes there: run \"%s payledger …\"", d, as)
	}
	return nil
}

// Open opens the event log and with it locks the directory.
func (d Dir) Open(o bolt.Options) (*bolt.Store, error) {
	if d.Clustered() {
		return nil, cli.Errorf(cli.ExitDirectory, "%[1]s is a node of a cluster, and its log is written to by all nodes together: "+
			"run the command while \"payledger serve --data %[1]s\" runs; a log.key that is lost is on the other nodes", d)
	}
	return OpenBy(d, func() (*bolt.Store, error) { return bolt.Open(d.Ledger(), o) })
}

// OpenBy opens the event log by a function and with it locks the directory.
func OpenBy[S io.Closer](d Dir, open func() (S, error)) (none S, err error) {
	if err := d.MustExist(); err != nil {
		return none, err
	}
	if err := d.mustBePrivate(); err != nil {
		return none, err
	}
	store, err := open()
	switch {
	case errors.Is(err, bolt.ErrLocked):
		return none, cli.Errorf(cli.ExitInUse, "the data directory %s is in use by another payledger process", d)
	case errors.Is(err, context.Canceled):
		return none, err
	case err != nil:
		return none, cli.Errorf(cli.ExitDirectory, "opening the event log: %w", err)
	}
	if err := Sweep(string(d), d.Files()...); err != nil {
		return none, errors.Join(cli.Errorf(cli.ExitDirectory, "%w", err), store.Close())
	}
	return store, nil
}

// OpenReadOnly opens the log of a directory on which no server runs.
func (d Dir) OpenReadOnly() (*bolt.Store, error) {
	store, err := bolt.OpenReadOnly(d.Ledger())
	switch {
	case errors.Is(err, bolt.ErrMissing):
		return nil, cli.Errorf(cli.ExitDirectory, "%s is not a data directory, it has no ledger.db: check the path", d)
	case errors.Is(err, bolt.ErrLocked):
		return nil, cli.Errorf(cli.ExitInUse, "the data directory %s is in use by another payledger process", d)
	case err != nil:
		return nil, cli.Errorf(cli.ExitDirectory, "opening the event log: %w", err)
	}
	return store, nil
}

// Unused fails unless the log can be opened and no process has it open.
func (d Dir) Unused() error {
	if err := d.MustExist(); err != nil {
		return err
	}
	store, err := d.OpenReadOnly()
	if err != nil {
		return err
	}
	return store.Close()
}

// VerifyFile reads a log that no process writes to from end to end: the
// structure of the file, every record and index, every event. each is called
// with every record, unless it is nil; its error ends the reading. It returns
// which log it is and where it ends.
func VerifyFile(ctx context.Context, path string, progress func(done, total eventstore.Position), each func(eventstore.Stored) error) (log domain.ID, last eventstore.Position, err error) {
	store, err := bolt.OpenReadOnly(path)
	if err != nil {
		return log, 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if last, err = store.Last(ctx); err != nil {
		return log, last, err
	}
	codec := eventstore.NewCodec()
	for r, err := range store.Scan(ctx, 0, eventstore.Filter{}) {
		if err == nil {
			_, err = codec.Decode(r)
		}
		if err == nil && each != nil {
			err = each(r)
		}
		if err != nil {
			return log, last, err
		}
		progress(r.Position, last)
	}
	return store.LogID(), last, store.Verify(ctx)
}

// MasterKeys reads the keys by version, and the version in use.
func (d Dir) MasterKeys() (keys map[int][32]byte, current int, err error) {
	b, err := os.ReadFile(d.MasterKey())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, cli.Errorf(cli.ExitDirectory, "the master key is missing: payment links cannot be read without it; restore it from your backup: %w", err)
	}
	if err != nil {
		return nil, 0, cli.Errorf(cli.ExitDirectory, "the master key cannot be read: %w", err)
	}
	keys = make(map[int][32]byte)
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		v, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		version, err := strconv.Atoi(v)
		key, hexErr := hex.DecodeString(text)
		if err != nil || hexErr != nil || version < 1 || len(key) != 32 {
			return nil, 0, cli.Errorf(cli.ExitDirectory, "%s, line %d: want a version and 64 hexadecimal digits; restore the file from your backup", d.MasterKey(), i+1)
		}
		keys[version], current = [32]byte(key), version
	}
	return keys, current, nil
}
