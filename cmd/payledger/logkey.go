package main

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"

	"payledger/domain"
	"payledger/eventstore/translog"
)

// logSigner reads the key that checkpoints are signed with. log is the id of
// the log it must belong to.
func (d dataDir) logSigner(log domain.ID) (*translog.Signer, error) {
	s, err := d.readLogKey()
	if err == nil && s.Origin() != translog.Origin(log) {
		err = exitWith(exitDirectory, "%s is the key of another log, %s: put back the one that belongs to %s", d.logKey(), s.Origin(), d.ledger())
	}
	return s, err
}

func (d dataDir) readLogKey() (*translog.Signer, error) {
	b, err := os.ReadFile(d.logKey())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exitWith(exitDirectory, "%[1]s is missing: the log's checkpoints are signed with it. Restore it from your backup. "+
			"If the directory never had one, or it is lost, make one with \"payledger log key --new --data %[2]s\" and "+
			"give the new verifier key to whoever checks the log", d.logKey(), d)
	}
	if err != nil {
		return nil, exitWith(exitDirectory, "the log's key: %w", err)
	}
	s, err := translog.ParseSigner(string(b))
	if err != nil {
		return nil, exitWith(exitDirectory, "%s cannot be read: %w; restore it from your backup", d.logKey(), err)
	}
	return s, nil
}

// makeLogKey makes the key of a log.
func (d dataDir) makeLogKey(log domain.ID) error {
	key, err := translog.NewKey(rand.Reader, translog.Origin(log))
	if err != nil {
		return err
	}
	return writeFileSynced(d.logKey(), []byte(key+"\n"))
}

// plannedLogID is the id that a log yet to be made must have because its key
// is there, made by an initialisation that went no further; zero for none.
func (d dataDir) plannedLogID() (domain.ID, error) {
	if _, err := os.Stat(d.logKey()); errors.Is(err, fs.ErrNotExist) {
		return domain.ID{}, nil
	}
	s, err := d.readLogKey()
	if err != nil {
		return domain.ID{}, err
	}
	id, ok := translog.LogOf(s.Origin())
	if !ok {
		return domain.ID{}, exitWith(exitDirectory, "%s is not the key of a log of payledger, but of %s: choose a new or empty directory", d.logKey(), s.Origin())
	}
	return id, nil
}

// signEmpty signs a checkpoint of the empty log, so that there is one as long
// as there is a log.
func (d dataDir) signEmpty() error {
	s, err := d.readLogKey()
	if err != nil {
		return err
	}
	var empty translog.Edge
	signed, err := s.Sign(translog.Checkpoint{Origin: s.Origin(), Root: empty.Root()})
	if err != nil {
		return err
	}
	return writeFileSynced(d.checkpoint(), signed)
}
