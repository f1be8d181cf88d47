package bench

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Report is everything that was measured.
type Report struct {
	At       string             `json:"at"`
	Machine  Machine            `json:"machine"`
	Settings Settings           `json:"settings"`
	Rows     []Row              `json:"rows"`
	Runs     []Sample           `json:"runs"`
	Checked  int                `json:"acknowledged_and_found"` // payments read again afterwards
	Took     map[string]float64 `json:"took_s"`                 // by suite
}

// Machine is what the figures were measured on.
type Machine struct {
	Processor  string  `json:"processor"`
	Cores      int     `json:"cores"`
	System     string  `json:"system"`
	Go         string  `json:"go"`
	FileSystem string  `json:"file_system"`
	Sync       float64 `json:"sync_ms"` // median of writing and syncing 4 KiB
}

// Settings are those of the run.
type Settings struct {
	Duration  float64 `json:"duration_s"`
	Rounds    int     `json:"rounds"`
	Payments  int     `json:"payments"`
	Events    int     `json:"events"` // of each of them
	SyncDelay float64 `json:"sync_delay_ms"`
}

// Sample is one run of one load on one target.
type Sample struct {
	What        string  `json:"what"`
	Target      string  `json:"target"`
	Round       int     `json:"round"`
	Connections int     `json:"connections"`
	Rate        int     `json:"open_loop_rate,omitzero"`
	PerSecond   float64 `json:"per_second"`
	Latency     Latency `json:"latency"`
	Late        Latency `json:"sent_late,omitzero"` // open loop: how far the load was behind
	Refused     int     `json:"refused"`
	Refusal     string  `json:"refusal,omitempty"`
	ServerCPU   float64 `json:"server_cpu_us"` // of each answer
	OwnCPU      float64 `json:"load_cpu_us"`   // of each answer: what the load itself cost
	Settled     float64 `json:"settled_s"`     // from the end of the load until nothing was left to do
}

func newReport(o Options) *Report {
	return &Report{
		At: time.Now().UTC().Format(time.RFC3339), Rows: []Row{}, Runs: []Sample{}, Took: map[string]float64{},
		Settings: Settings{
			Duration: o.Duration.Seconds(), Rounds: o.Rounds, Payments: o.Payments, Events: o.Events, SyncDelay: float64(o.SyncDelay) / 1e6,
		},
	}
}

func (r *Report) add(run Sample) { r.Runs = append(r.Runs, run) }

// describe notes the machine.
func (r *Report) describe(dir string) error {
	synced, err := syncTime(dir)
	r.Machine = Machine{
		Processor: processor(), Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		FileSystem: fileSystem(dir), Sync: synced,
	}
	return err
}

// syncTime is how many milliseconds it takes to append 4 KiB to a file and to
// sync it.
func syncTime(dir string) (float64, error) {
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // the directory goes anyway
	defer f.Close()           //nolint:errcheck // gone with the directory
	var took series
	page := make([]byte, 4096)
	for range 100 {
		start := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
		if err := dataSync(f); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(start))/1e6)
	}
	return math.Round(took.median()*1e3) / 1e3, nil
}

// RefusedError: the service or a baseline answered requests otherwise than it
// should, so that the figures are not those of what was asked.
type RefusedError struct {
	What, Target, Refusal string
	Refused               int
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s: %s refused %d requests, one of them: %s", e.What, e.Target, e.Refused, e.Refusal)
}

func (r *Report) refusals() error {
	var errs []error
	for _, run := range r.Runs {
		if run.Refused > 0 {
			errs = append(errs, &RefusedError{run.What, run.Target, run.Refusal, run.Refused})
		}
	}
	return errors.Join(errs...)
}

// Missed lists the rows that are not what they must be.
func (r *Report) Missed() []Row {
	var missed []Row
	for _, row := range r.Rows {
		if row.Verdict() == VerdictMissed {
			missed = append(missed, row)
		}
	}
	return missed
}
