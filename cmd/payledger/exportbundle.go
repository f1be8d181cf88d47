package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/eventstore/translog"
)

const bundleJournal = "journal.hledger"

// bundle writes what an auditor needs: the events that a fresh checkpoint
// covers, no more and no fewer, the journal of them, the checkpoint and the
// key it is signed with. The manifest comes last: a bundle without one is not
// finished.
func (c exportCmd) bundle(a *app, m *admin) error {
	signed, point, key, err := c.checkpoint(a, m)
	if err != nil {
		return err
	}
	dir, isTar := strings.CutSuffix(c.Output, ".tar")
	if isTar {
		dir = c.Output + ".parts"
		if _, err := os.Lstat(c.Output); err == nil {
			return fmt.Errorf("%s exists: choose another name", c.Output)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if !errors.Is(err, os.ErrExist) {
			return err
		}
		if !c.Resume {
			return fmt.Errorf("%s exists: go on with it by --resume, or choose another name", dir)
		}
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := sweep(dir, bundleManifest, bundleCheckpoint, bundleKey); err != nil {
		return err
	}
	if err := os.Remove(file(bundleManifest)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var done exportDone
	for _, part := range []struct{ name, format, doing string }{
		{bundleEvents, "jsonl", "Exporting events"}, {bundleJournal, "hledger", "Writing the journal"},
	} {
		x := export{m: m, format: newFormat(part.format), last: point.Size, progress: newProgress(a.stderr, part.doing)}
		written, err := x.toFile(a, file(part.name), c.Resume)
		if err != nil {
			return err
		}
		if part.name == bundleEvents {
			done = written
		}
	}
	if err := writeFileSynced(file(bundleCheckpoint), signed); err != nil {
		return err
	}
	if err := writeFileSynced(file(bundleKey), []byte(key+"\n")); err != nil {
		return err
	}
	if err := writeManifest(dir, point); err != nil {
		return err
	}
	if isTar {
		if err := packBundle(c.Output, dir); err != nil {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return a.exported(c.Format, c.Output, done)
}

// checkpoint asks for a fresh checkpoint and opens it with the directory's key.
func (c exportCmd) checkpoint(a *app, m *admin) (signed []byte, point translog.Checkpoint, key string, err error) {
	if key, err = dataDir(c.Data).ownVerifierKey(); err != nil {
		return nil, point, "", err
	}
	if key == "" {
		return nil, point, "", exitWith(exitDirectory, "%s has no log.key, so there is no signed checkpoint to put into a bundle", c.Data)
	}
	verifier, err := translog.ParseVerifier(key)
	if err != nil {
		return nil, point, "", err
	}
	resp, err := m.send(a.ctx, http.MethodGet, "/admin/log/checkpoint", nil)
	if err != nil {
		return nil, point, "", err
	}
	defer resp.Body.Close()
	if signed, err = io.ReadAll(io.LimitReader(resp.Body, translog.MaxCheckpoint)); err != nil {
		return nil, point, "", fmt.Errorf("reading the checkpoint: %w", err)
	}
	point, err = verifier.Open(signed)
	return signed, point, key, err
}

func bundleParts() []string {
	return []string{bundleCheckpoint, bundleKey, bundleEvents, bundleJournal}
}

func writeManifest(dir string, point translog.Checkpoint) error {
	id, ok := domain.ParseID(point.Origin[strings.LastIndexByte(point.Origin, '/')+1:])
	if !ok || translog.Origin(id) != point.Origin {
		return fmt.Errorf("the checkpoint is of the log %s, which is not one of payledger's", point.Origin)
	}
	m := manifest{LogID: id, Events: uint64(point.Size), SHA256: make(map[string]string)}
	for _, name := range bundleParts() {
		sum := sha256.New()
		if err := copyInto(sum, filepath.Join(dir, name)); err != nil {
			return err
		}
		m.SHA256[name] = hex.EncodeToString(sum.Sum(nil))
	}
	b, err := json.Marshal(m, json.Deterministic(true), jsontext.Multiline(true))
	if err != nil {
		return err
	}
	return writeFileSynced(filepath.Join(dir, bundleManifest), append(b, '\n'))
}

func copyInto(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return errors.Join(err, f.Close())
}

// packBundle puts a bundle's files into one, the small ones first.
func packBundle(name, dir string) (err error) {
	work, err := newScratch(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.remove()) }()
	f, err := createPrivate(work.file("bundle.tar"))
	if err != nil {
		return err
	}
	if err := errors.Join(packParts(f, dir), f.Sync(), f.Close()); err != nil {
		return err
	}
	return give(f.Name(), name, false)
}

func packParts(f io.Writer, dir string) error {
	out := tar.NewWriter(f)
	for _, part := range append([]string{bundleManifest}, bundleParts()...) {
		info, err := os.Stat(filepath.Join(dir, part))
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: part, Size: info.Size(), Mode: 0o600, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if err := copyInto(out, filepath.Join(dir, part)); err != nil {
			return err
		}
	}
	return out.Close()
}
