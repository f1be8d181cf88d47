package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/translog"
)

// The files of a bundle that verify reads.
const (
	bundleEvents     = "events.jsonl"
	bundleCheckpoint = "checkpoint"
	bundleKey        = "verifier.key"
	bundleManifest   = "manifest.json"
)

// maxBundleSmall bounds every file of a bundle but the events and the journal.
const maxBundleSmall = 1 << 20

// bundle is an exported bundle: a directory or a tar file.
type bundle struct {
	path string
	tar  bool
}

// openBundle answers nil when the path is something else.
func openBundle(name string) (*bundle, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil // who opens it next says why
	}
	if info.IsDir() {
		if _, err := os.Stat(filepath.Join(name, bundleEvents)); err != nil {
			return nil, nil // not a bundle
		}
		return &bundle{path: name}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, exitWith(exitDirectory, "%w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	// A tar header has its magic at 257 (POSIX ustar).
	head := make([]byte, 262)
	if _, err := io.ReadFull(f, head); err != nil || string(head[257:]) != "ustar" {
		return nil, nil // too short to be one
	}
	return &bundle{path: name, tar: true}, nil
}

// each calls fn for every file of the bundle, in the order in which they lie
// there. A directory before the names, the same for all, is left out.
func (b *bundle) each(fn func(name string, size int64, r io.Reader) error) error {
	if !b.tar {
		return b.eachInDir(fn)
	}
	f, err := os.Open(b.path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	in := tar.NewReader(f)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s cannot be read: %w", b.path, err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := fn(path.Base(h.Name), h.Size, in); err != nil {
			return err
		}
	}
}

func (b *bundle) eachInDir(fn func(name string, size int64, r io.Reader) error) error {
	entries, err := os.ReadDir(b.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		err := func() error {
			f, err := os.Open(filepath.Join(b.path, e.Name()))
			if err != nil {
				return err
			}
			defer f.Close() //nolint:errcheck // only read
			info, err := f.Stat()
			if err != nil {
				return err
			}
			return fn(e.Name(), info.Size(), f)
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

// manifest names a bundle's log, how many events there are, and the SHA-256 of
// each of its files.
type manifest struct {
	LogID  domain.ID         `json:"log_id"`
	Events uint64            `json:"events"`
	SHA256 map[string]string `json:"sha256"`
}

// survey reads everything but the events' meaning: what lies in the bundle,
// the small files, and the hash of each.
func (b *bundle) survey() (sums map[string]string, small map[string][]byte, err error) {
	sums, small = make(map[string]string), make(map[string][]byte)
	err = b.each(func(name string, size int64, r io.Reader) error {
		if _, twice := sums[name]; twice {
			return exitWith(exitDirectory, "%s holds %s twice", b.path, name)
		}
		sum := sha256.New()
		var keep bytes.Buffer
		if slices.Contains([]string{bundleCheckpoint, bundleKey, bundleManifest}, name) {
			if size > maxBundleSmall {
				return exitWith(exitDirectory, "%s: %s has %d bytes, that is not one", b.path, name, size)
			}
			r = io.TeeReader(r, &keep)
		}
		if _, err := io.Copy(sum, r); err != nil {
			return err
		}
		sums[name] = hex.EncodeToString(sum.Sum(nil))
		small[name] = keep.Bytes()
		return nil
	})
	return sums, small, err
}

// bundle verifies an exported bundle. First everything in it is read for the
// hashes and the small files, then the events once more. The manifest can be
// made to match an altered journal, so the journal is written anew from the
// events and compared.
func (c verifyCmd) bundle(a *app, b *bundle) error {
	sums, small, err := b.survey()
	if err != nil {
		return openFailed(err)
	}
	if sums[bundleEvents] == "" {
		return exitWith(exitDirectory, "%s is not a bundle, it has no %s", b.path, bundleEvents)
	}
	q, err := c.request("", true)
	if err != nil {
		return err
	}
	own := len(q.VerifierKeys) == 0
	if _, ok := sums[bundleKey]; ok && own {
		q.VerifierKeys = []string{string(small[bundleKey])}
	}
	o := audit.Options{Codec: eventstore.NewCodec(), Bare: true, Progress: newProgress(a.stderr, "Checking the log")}
	for _, p := range q.Checkpoints {
		o.Checkpoints = append(o.Checkpoints, audit.Checkpoint{Name: p.Name, Signed: []byte(p.Note)})
	}
	if _, ok := sums[bundleCheckpoint]; ok {
		o.Checkpoints = append(o.Checkpoints, audit.Checkpoint{Name: b.path + "/" + bundleCheckpoint, Signed: small[bundleCheckpoint], Beside: true})
	}
	for _, text := range q.VerifierKeys {
		v, err := translog.ParseVerifier(text)
		if err != nil {
			return exitWith(exitDirectory, "%s: %s: %w", b.path, bundleKey, err)
		}
		o.Verifiers = append(o.Verifiers, v)
	}
	var stated manifest
	faults := readManifest(small[bundleManifest], sums, &stated)
	o.Total = eventstore.Position(stated.Events)
	if !stated.LogID.IsZero() {
		o.Origin = translog.Origin(stated.LogID)
	}
	var report *audit.Report
	written := newJournalSum()
	err = b.each(func(name string, _ int64, r io.Reader) error {
		if name != bundleEvents {
			return nil
		}
		report, err = audit.Check(a.ctx, written.passing(audit.Lines(r)), o)
		return err
	})
	if err != nil {
		return openFailed(err)
	}
	// Where events are missing or altered, a journal that differs says no more.
	if sum, ok := sums[bundleJournal]; ok && report.OK() && sum != written.sum() {
		report.Add(audit.Finding{Kind: audit.BadJournal, Detail: bundleJournal + " is not the journal of the bundle's events"})
	}
	if stated.Events != 0 && stated.Events != report.Events {
		faults = append(faults, fmt.Sprintf("it names %d events, there are %d", stated.Events, report.Events))
	}
	for _, f := range faults {
		report.Add(audit.Finding{Kind: audit.BadManifest, Detail: bundleManifest + ": " + f})
	}
	report.Projections = audit.Verdict{Outcome: audit.NotChecked, Reason: "a bundle has none"}
	if own && report.Integrity.Outcome == audit.OK {
		report.Integrity.Reason += "; the verifier key came with the bundle: give the one you got from the server's operator with --verifier-key"
	}
	return a.printReport(report)
}

// journalSum hashes the journal of the events that pass.
type journalSum struct {
	format format
	hash   hash.Hash
	block  []byte
}

func newJournalSum() *journalSum {
	j := &journalSum{format: newFormat("hledger"), hash: sha256.New()}
	j.hash.Write([]byte(j.format.header()))
	return j
}

func (j *journalSum) passing(src audit.Source) audit.Source {
	return func(after eventstore.Position) iter.Seq2[eventstore.Stored, error] {
		return func(yield func(eventstore.Stored, error) bool) {
			for r, err := range src(after) {
				if err == nil {
					// What cannot be decoded is found by the check.
					j.block, _ = j.format.render(j.block[:0], r)
					j.hash.Write(j.block)
				}
				if !yield(r, err) {
					return
				}
			}
		}
	}
}

func (j *journalSum) sum() string { return hex.EncodeToString(j.hash.Sum(nil)) }

func openFailed(err error) error {
	var e *exitError
	var system *fs.PathError
	if errors.As(err, &system) && !errors.As(err, &e) {
		return &exitError{exitDirectory, err}
	}
	return err
}

// readManifest reads the manifest and lists what in the bundle is not as it
// says.
func readManifest(content []byte, sums map[string]string, m *manifest) (faults []string) {
	if content == nil {
		return []string{"it is missing"}
	}
	if err := json.Unmarshal(content, m); err != nil {
		return []string{"it cannot be read: " + err.Error()}
	}
	for name, want := range m.SHA256 {
		switch got, ok := sums[name]; {
		case !ok:
			faults = append(faults, name+" is missing")
		case got != want:
			faults = append(faults, fmt.Sprintf("%s has the SHA-256 %s, it names %s", name, got, want))
		}
	}
	for name := range sums {
		if _, ok := m.SHA256[name]; !ok && name != bundleManifest {
			faults = append(faults, name+" is not in it")
		}
	}
	slices.Sort(faults)
	return faults
}
