package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/cli"
	"payledger/domain"
	"payledger/domain/installation"
)

// KeyFiles are the files that cannot be rebuilt from the log and are not in a
// backup of it. A server does not start without the first.
func KeyFiles() []string { return []string{"master.key", "log.key"} }

// PackedFiles are the files of a file of keys: the keys, and others that cannot be rebuilt from the
// log. Others than the keys may be missing.
func PackedFiles() []string {
	return append(KeyFiles(), "nats-credentials.json", "nats-consumers.json", "cluster.key")
}

// KeysFileOf is the name of the file of keys that belongs to a backup.
func KeysFileOf(file string) string { return file + ".keys" }

// File is the path of a file in the directory.
func (d Dir) File(name string) string { return filepath.Join(string(d), name) }

// KeyNames lists the key files that the directory has, for a person.
func (d Dir) KeyNames() string {
	var there []string
	for _, name := range KeyFiles() {
		if _, err := os.Lstat(d.File(name)); err == nil {
			there = append(there, d.File(name))
		}
	}
	return strings.Join(there, " and ")
}

// KeyPack is a file of keys: the content of each of the PackedFiles by its name.
type KeyPack struct {
	Files map[string]string `json:"payledger_keys"`
}

// PackKeys copies the directory's PackedFiles.
func (d Dir) PackKeys() ([]byte, error) {
	pack := KeyPack{Files: make(map[string]string)}
	for _, name := range PackedFiles() {
		b, err := os.ReadFile(d.File(name))
		switch {
		case err == nil:
			pack.Files[name] = string(b)
		case !errors.Is(err, fs.ErrNotExist) || name == KeyFiles()[0]:
			return nil, cli.Errorf(cli.ExitDirectory, "--with-keys: %w", err)
		}
	}
	b, err := json.Marshal(pack, json.Deterministic(true))
	return append(b, '\n'), err
}

// ReadKeys reads a file of keys and refuses one that is incomplete.
func ReadKeys(name string) (KeyPack, error) {
	var pack KeyPack
	b, err := os.ReadFile(name)
	if err != nil {
		return pack, cli.Errorf(cli.ExitDirectory, "the file of keys: %w", err)
	}
	if pack, err = ParseKeys(b); err != nil {
		return pack, cli.Errorf(cli.ExitDirectory, "%s is not a file of keys that \"payledger backup --with-keys\" wrote: %w", name, err)
	}
	return pack, nil
}

// ParseKeys is ReadKeys for the content of such a file.
func ParseKeys(b []byte) (pack KeyPack, err error) {
	err = json.Unmarshal(b, &pack, json.RejectUnknownMembers(true))
	if err == nil && pack.Files[KeyFiles()[0]] == "" {
		err = errors.New("it holds no " + KeyFiles()[0])
	}
	for file := range pack.Files {
		if err == nil && !slices.Contains(PackedFiles(), file) {
			err = fmt.Errorf("%q is no file of payledger's", file)
		}
	}
	return pack, err
}

// KeyPlan says what a restore does to the directory's keys.
type KeyPlan struct {
	Put    map[string]string // content by name
	Differ []string          // files there now that another would replace
}

// PlanKeys compares the files of a pack with those in the directory. A file of keys
// that only has more lines than the pack's stays: keys were added since. Of the
// others, which the server changes, those in the directory are newer and stay.
func (d Dir) PlanKeys(pack KeyPack) (KeyPlan, error) {
	plan := KeyPlan{Put: make(map[string]string)}
	for _, name := range KeyFiles() {
		there, err := os.ReadFile(d.File(name))
		packed, ok := pack.Files[name]
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return plan, cli.Errorf(cli.ExitDirectory, "%w", err)
		case !ok && err != nil && name == KeyFiles()[0]:
			return plan, cli.Errorf(cli.ExitDirectory, "%[1]s has no %[2]s, without which payment links cannot be read: "+
				"put the copy you kept there, or name a file of keys with --keys, then restore again", d, name)
		case !ok:
		case err != nil:
			plan.Put[name] = packed
		case !bytes.HasPrefix(there, []byte(packed)):
			plan.Put[name] = packed
			plan.Differ = append(plan.Differ, name)
		}
	}
	for _, name := range PackedFiles()[len(KeyFiles()):] {
		if packed, ok := pack.Files[name]; ok && !Exists(d.File(name)) {
			plan.Put[name] = packed
		}
	}
	return plan, nil
}

// RestoredNote says that the log was restored, until a server records it.
type RestoredNote struct {
	Actor    string                   `json:"actor"`
	Act      installation.LogRestored `json:"act"`
	Replaced domain.ID                `json:"replaced,omitzero"` // the event after Act.Position in the log that it replaces, or that log if it is another one
}

// WriteRestored writes the note. It comes before the log that is restored.
func (d Dir) WriteRestored(n RestoredNote) error {
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return WriteFileSynced(d.Restored(), b)
}

// ReadRestored reads the note; false: there is none.
func (d Dir) ReadRestored() (n RestoredNote, ok bool, err error) {
	b, err := os.ReadFile(d.Restored())
	if errors.Is(err, fs.ErrNotExist) {
		return n, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	if err != nil {
		return n, false, fmt.Errorf("%s: %w", d.Restored(), err)
	}
	return n, true, nil
}
