package export

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore/audit"
	"payledger/eventstore/translog"
)

// Manifest names a bundle's log, the project of a bundle that has only that one's events as they are, how many events there are, and the SHA-256 of
// each of its files.
type Manifest struct {
	LogID   domain.ID         `json:"log_id"`
	Project string            `json:"project,omitempty"` // the only one whose events are not opaque; "": all
	Events  uint64            `json:"events"`
	SHA256  map[string]string `json:"sha256"`
}

func bundleParts() []string {
	return []string{CheckpointFile, KeyFile, EventsFile, JournalFile}
}

func writeManifest(dir string, point translog.Checkpoint, project string) error {
	id, ok := translog.LogOf(point.Origin)
	if !ok {
		return fmt.Errorf("the checkpoint is of the log %s, which is not one of payledger's", point.Origin)
	}
	m := Manifest{LogID: id, Project: project, Events: uint64(point.Size), SHA256: make(map[string]string)}
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
	return datadir.WriteFileSynced(filepath.Join(dir, ManifestFile), append(b, '\n'))
}

// ReadManifest reads the manifest and lists what in the bundle is not as it
// says. It must name every part of a bundle: without one of them, such as the
// checkpoint, nothing would prove the events.
func ReadManifest(in Contents, m *Manifest) (faults []string) {
	for _, name := range in.odd {
		faults = append(faults, name+" is no file")
	}
	content, ok := in.Small[ManifestFile]
	if !ok {
		return append(faults, "it is missing")
	}
	if err := json.Unmarshal(content, m); err != nil {
		return append(faults, "it cannot be read: "+err.Error())
	}
	m.Project = cli.Visible(m.Project)
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
			faults = append(faults, cli.Visible(name)+" is missing")
		case got != want:
			faults = append(faults, fmt.Sprintf("%s has the SHA-256 %s, it names %s", name, got, cli.Visible(want)))
		}
	}
	for name := range in.sums {
		if _, ok := m.SHA256[name]; !ok && name != ManifestFile {
			faults = append(faults, name+" is not in it")
		}
	}
	slices.Sort(faults)
	return faults
}

// counts compares how many events there are with how many there should be: as
// many as the bundle's own checkpoint covers. One that failed has a finding of its own.
func (m Manifest) counts(r *audit.Report, checkpoint string) (faults []string) {
	if m.Events != r.Events {
		faults = append(faults, fmt.Sprintf("it names %d events, there are %d", m.Events, r.Events))
	}
	for _, c := range r.Checkpoints {
		if c.Name == checkpoint && c.Outcome == audit.OK && c.Size != m.Events {
			faults = append(faults, fmt.Sprintf("it names %d events, the checkpoint covers %d", m.Events, c.Size))
		}
	}
	return faults
}
