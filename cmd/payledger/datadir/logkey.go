package datadir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/domain"
	"payledger/eventstore/bolt"
	"payledger/eventstore/translog"
)

// LogSigner reads the key that checkpoints are signed with. log is the id of
// the log it must belong to.
func (d Dir) LogSigner(log domain.ID) (*translog.Signer, error) {
	s, err := d.ReadLogKey()
	if err == nil && s.Origin() != translog.Origin(log) {
		err = cli.Errorf(cli.ExitDirectory, "%s is the key of another log, %s: put back the one that belongs to %s", d.LogKey(), s.Origin(), d.Ledger())
	}
	return s, err
}

// ReadLogKey reads the key that checkpoints are signed with.
func (d Dir) ReadLogKey() (*translog.Signer, error) {
	b, err := os.ReadFile(d.LogKey())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Errorf(cli.ExitDirectory, "%[1]s is missing: the log's checkpoints are signed with it. Restore it from your backup. "+
			"If the directory never had one, or it is lost, make one with \"payledger log key --new --data %[2]s\" and "+
			"give the new verifier key to those who check the log", d.LogKey(), d)
	}
	if err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "the log's key: %w", err)
	}
	s, err := translog.ParseSigner(string(b))
	if err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "%s cannot be read: %w; restore it from your backup", d.LogKey(), err)
	}
	return s, nil
}

// makeLogKey makes the key of a log. record is called with the verifier key before
// the key is written.
func (d Dir) makeLogKey(log domain.ID, record func(verifierKey string) error) error {
	key, err := translog.NewKey(rand.Reader, translog.Origin(log))
	if err != nil {
		return err
	}
	s, err := translog.ParseSigner(key)
	if err == nil {
		err = record(s.VerifierKey())
	}
	if err != nil {
		return err
	}
	return WriteFileSynced(d.LogKey(), []byte(key+"\n"))
}

// OwnVerifier derives the verifier key from the log's key, nil when the directory has none.
func (d Dir) OwnVerifier() (*translog.Verifier, error) {
	if !Exists(d.LogKey()) {
		return nil, nil
	}
	s, err := d.ReadLogKey()
	if err != nil {
		return nil, err
	}
	return s.Verifier(), nil
}

// RenewLogKey makes a key where there is none, and moves the newest checkpoint aside. record is called
// with the log and the verifier key before anything changes in the directory.
func (d Dir) RenewLogKey(stderr io.Writer, record func(log *bolt.Store, verifierKey string) error) (err error) {
	store, err := d.Open(bolt.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, err := os.Lstat(d.LogKey()); err == nil {
		return cli.Errorf(cli.ExitDirectory, "%s is there already: it was left as it is", d.LogKey())
	}
	aside := d.Checkpoint() + ".replaced-" + time.Now().UTC().Format("20060102T150405.000Z")
	err = d.makeLogKey(store.LogID(), func(key string) error {
		if err := record(store, key); err != nil {
			return err
		}
		err := os.Rename(d.Checkpoint(), aside)
		if err == nil {
			fmt.Fprintf(stderr, "payledger: the newest checkpoint, signed with the lost key, is now %s\n", aside)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "making the log's key: %w", err)
	}
	return nil
}
