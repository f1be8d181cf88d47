package main

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
)

// keyFiles are the files of a data directory that cannot be made anew from the
// log and that a backup of the log does not hold. Without the first a server
// does not start.
func keyFiles() []string { return []string{"master.key", "log.key"} }

// keysOf names the file with the keys beside a backup.
func keysOf(file string) string { return file + ".keys" }

func (d dataDir) file(name string) string { return filepath.Join(string(d), name) }

// keyNames lists the key files that the directory has, for a person.
func (d dataDir) keyNames() string {
	var there []string
	for _, name := range keyFiles() {
		if _, err := os.Lstat(d.file(name)); err == nil {
			there = append(there, d.file(name))
		}
	}
	return strings.Join(there, " and ")
}

// keyPack is a file of keys: the content of each key file by its name.
type keyPack struct {
	Files map[string]string `json:"payledger_keys"`
}

// packKeys copies the directory's keys.
func (d dataDir) packKeys() ([]byte, error) {
	pack := keyPack{Files: make(map[string]string)}
	for _, name := range keyFiles() {
		b, err := os.ReadFile(d.file(name))
		switch {
		case err == nil:
			pack.Files[name] = string(b)
		case !errors.Is(err, fs.ErrNotExist) || name == keyFiles()[0]:
			return nil, exitWith(exitDirectory, "--with-keys: %w", err)
		}
	}
	b, err := json.Marshal(pack, json.Deterministic(true))
	return append(b, '\n'), err
}

func readKeys(name string) (keyPack, error) {
	var pack keyPack
	b, err := os.ReadFile(name)
	if err != nil {
		return pack, exitWith(exitDirectory, "the file of keys: %w", err)
	}
	err = json.Unmarshal(b, &pack, json.RejectUnknownMembers(true))
	if err == nil && pack.Files[keyFiles()[0]] == "" {
		err = errors.New("it holds no " + keyFiles()[0])
	}
	for file := range pack.Files {
		if err == nil && !slices.Contains(keyFiles(), file) {
			err = fmt.Errorf("%q is no key of payledger", file)
		}
	}
	if err != nil {
		return pack, exitWith(exitDirectory, "%s is not a file of keys that \"payledger backup --with-keys\" wrote: %w", name, err)
	}
	return pack, nil
}

// keyPlan says what a restore does to the directory's keys.
type keyPlan struct {
	put    map[string]string // content by name
	differ []string          // files there now that another would replace
}

// planKeys compares the keys of a pack with those in the directory. A file
// that only has more lines than the pack's stays: keys were added since.
func (d dataDir) planKeys(pack keyPack) (keyPlan, error) {
	plan := keyPlan{put: make(map[string]string)}
	for _, name := range keyFiles() {
		there, err := os.ReadFile(d.file(name))
		packed, ok := pack.Files[name]
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return plan, exitWith(exitDirectory, "%w", err)
		case !ok && err != nil && name == keyFiles()[0]:
			return plan, exitWith(exitDirectory, "%[1]s has no %[2]s, without which payment links cannot be read: "+
				"put the copy you kept there, or name a file of keys with --keys, then restore again", d, name)
		case !ok:
		case err != nil:
			plan.put[name] = packed
		case !bytes.HasPrefix(there, []byte(packed)):
			plan.put[name] = packed
			plan.differ = append(plan.differ, name)
		}
	}
	return plan, nil
}
