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
	if err != nil {
		return err
	}
	if err := record(s.VerifierKey()); err != nil {
		return err
	}
	return WriteFileSynced(d.LogKey(), []byte(key+"\n"))
}

// plannedLogID is the id that a log yet to be made must have because its key
// is there, made by an initialisation that went no further; zero for none.
func (d Dir) plannedLogID() (domain.ID, error) {
	if _, err := os.Stat(d.LogKey()); errors.Is(err, fs.ErrNotExist) {
		return domain.ID{}, nil
	}
	s, err := d.ReadLogKey()
	if err != nil {
		return domain.ID{}, err
	}
	id, ok := translog.LogOf(s.Origin())
	if !ok {
		return domain.ID{}, cli.Errorf(cli.ExitDirectory, "%s is not the key of a log of payledger, but of %s: choose a new or empty directory", d.LogKey(), s.Origin())
	}
	return id, nil
}

// signEmpty signs a checkpoint of the empty log, so that there is one as long
// as there is a log.
func (d Dir) signEmpty() error {
	s, err := d.ReadLogKey()
	if err != nil {
		return err
	}
	var empty translog.Edge
	signed, err := s.Sign(translog.Checkpoint{Origin: s.Origin(), Root: empty.Root()})
	if err != nil {
		return err
	}
	return WriteFileSynced(d.Checkpoint(), signed)
}

// OwnVerifierKey derives the verifier key from the log's key, "" when the
// directory has none.
func (d Dir) OwnVerifierKey() (string, error) {
	name := d.LogKey()
	b, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	s, err := translog.ParseSigner(string(b))
	if err != nil {
		return "", cli.Errorf(cli.ExitDirectory, "%s: %w", name, err)
	}
	return s.VerifierKey(), nil
}

// RenewLogKey makes a key where there is none. record is called with the log and the
// verifier key before anything changes in the directory.
func (d Dir) RenewLogKey(stderr io.Writer, record func(log *bolt.Store, verifierKey string) error) (err error) {
	store, err := d.Open(bolt.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, err := os.Lstat(d.LogKey()); err == nil {
		return cli.Errorf(cli.ExitDirectory, "%s is there already: it was left as it is", d.LogKey())
	}
	err = d.makeLogKey(store.LogID(), func(key string) error {
		if err := record(store, key); err != nil {
			return err
		}
		return d.checkpointAside(stderr)
	})
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "making the log's key: %w", err)
	}
	return nil
}

// checkpointAside moves the newest checkpoint aside.
func (d Dir) checkpointAside(stderr io.Writer) error {
	aside := d.Checkpoint() + ".replaced-" + time.Now().UTC().Format("20060102T150405.000Z")
	switch err := os.Rename(d.Checkpoint(), aside); {
	case err == nil:
		fmt.Fprintf(stderr, "payledger: the newest checkpoint, signed with the lost key, is now %s\n", aside)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}
