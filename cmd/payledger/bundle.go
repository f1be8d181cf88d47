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
	"strings"

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

// The bounds of a bundle: of every file but the events and the journal, and of
// how many files there are.
const (
	maxBundleSmall = 1 << 20
	maxBundleFiles = 64
)

// bundle is an exported bundle: a directory or a tar file.
type bundle struct {
	path string
	tar  bool
	root string // the directory in the tar file that holds all of it
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
// there. Of a tar file's names the root is left out; what is not a file there
// has no reader.
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
		name := path.Clean(h.Name)
		if b.root != "." {
			name = strings.TrimPrefix(name, b.root+"/")
		}
		switch h.Typeflag {
		case tar.TypeReg:
			err = fn(name, h.Size, in)
		case tar.TypeDir, tar.TypeXGlobalHeader:
		default:
			err = fn(name, 0, nil)
		}
		if err != nil {
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

func (b *bundle) checkpointName() string { return b.path + "/" + bundleCheckpoint }

// contents are what lies in a bundle: the SHA-256 of each file, the small
// files, and the names of what is no file.
type contents struct {
	sums  map[string]string
	small map[string][]byte
	odd   []string
}

// survey reads everything but the events' meaning.
func (b *bundle) survey() (contents, error) {
	c := contents{sums: make(map[string]string), small: make(map[string][]byte)}
	if err := b.findRoot(); err != nil {
		return c, err
	}
	err := b.each(func(name string, size int64, r io.Reader) error {
		switch _, twice := c.sums[name]; {
		case twice:
			return exitWith(exitDirectory, "%s holds %s twice", b.path, name)
		case len(c.sums)+len(c.odd) == maxBundleFiles:
			return exitWith(exitDirectory, "%s is not a bundle, it holds more than %d files", b.path, maxBundleFiles)
		case r == nil:
			c.odd = append(c.odd, name)
			return nil
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
		c.sums[name] = hex.EncodeToString(sum.Sum(nil))
		c.small[name] = keep.Bytes()
		return nil
	})
	if err == nil && c.sums[bundleEvents] == "" {
		err = exitWith(exitDirectory, "%s is not a bundle, it has no %s", b.path, bundleEvents)
	}
	return c, err
}

// findRoot finds the directory of a tar file that its events lie in. A file
// elsewhere is none of the bundle's.
func (b *bundle) findRoot() error {
	b.root = "."
	found := false
	return b.each(func(name string, _ int64, r io.Reader) error {
		if r == nil || path.Base(name) != bundleEvents {
			return nil
		}
		if found {
			return exitWith(exitDirectory, "%s holds %s twice", b.path, bundleEvents)
		}
		b.root, found = path.Dir(name), true
		return nil
	})
}

// bundle verifies an exported bundle. First everything in it is read for the
// hashes and the small files, then the events once more. The manifest can be
// made to match an altered journal, so the journal is written anew from the
// events and compared.
func (c verifyCmd) bundle(a *app, b *bundle) error {
	in, err := b.survey()
	if err != nil {
		return openFailed(err)
	}
	sums, small := in.sums, in.small
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
		o.Checkpoints = append(o.Checkpoints, audit.Checkpoint{Name: b.checkpointName(), Signed: small[bundleCheckpoint], Beside: true})
	}
	for _, text := range q.VerifierKeys {
		v, err := translog.ParseVerifier(text)
		if err != nil {
			return exitWith(exitDirectory, "%s: %s: %w", b.path, bundleKey, err)
		}
		o.Verifiers = append(o.Verifiers, v)
	}
	var stated manifest
	faults := readManifest(in, &stated)
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
	if _, ok := sums[bundleManifest]; ok {
		faults = append(faults, stated.counts(report, b.checkpointName())...)
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
// says. It has to name all that a bundle consists of: with a part left out,
// nothing might vouch for the events.
func readManifest(in contents, m *manifest) (faults []string) {
	for _, name := range in.odd {
		faults = append(faults, name+" is no file")
	}
	content, ok := in.small[bundleManifest]
	if !ok {
		return append(faults, "it is missing")
	}
	if err := json.Unmarshal(content, m); err != nil {
		return append(faults, "it cannot be read: "+err.Error())
	}
	if m.LogID.IsZero() {
		faults = append(faults, "it names no log")
	}
	for _, name := range bundleParts() {
		if _, ok := m.SHA256[name]; !ok {
			faults = append(faults, "it does not name "+name)
		}
	}
	for name, want := range m.SHA256 {
		switch got, ok := in.sums[name]; {
		case !ok:
			faults = append(faults, name+" is missing")
		case got != want:
			faults = append(faults, fmt.Sprintf("%s has the SHA-256 %s, it names %s", name, got, want))
		}
	}
	for name := range in.sums {
		if _, ok := m.SHA256[name]; !ok && name != bundleManifest {
			faults = append(faults, name+" is not in it")
		}
	}
	slices.Sort(faults)
	return faults
}

// counts compares how many events there are with how many there should be: as
// many as the bundle's own checkpoint covers.
func (m manifest) counts(r *audit.Report, checkpoint string) (faults []string) {
	if m.Events != r.Events {
		faults = append(faults, fmt.Sprintf("it names %d events, there are %d", m.Events, r.Events))
	}
	for _, c := range r.Checkpoints {
		if c.Name == checkpoint && c.Size != 0 && c.Size != m.Events {
			faults = append(faults, fmt.Sprintf("it names %d events, the checkpoint covers %d", m.Events, c.Size))
		}
	}
	return faults
}
