package salvage

import (
	"fmt"
	"io"
	"strings"

	"payledger/cmd/payledger/cli"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/salvage"
)

// Report is what the command prints.
type Report struct {
	Log         domain.ID           `json:"log"`
	Whole       bool                `json:"whole"`             // see salvage.Plan.Whole; and the new log passed its check
	Written     string              `json:"written,omitempty"` // file of the new log
	Events      eventstore.Position `json:"events"`            // in the new log
	Last        eventstore.Position `json:"last"`              // the greatest position in any source or checkpoint
	Proved      eventstore.Position `json:"proved"`            // the events up to here are proved by a checkpoint
	Checkpoints []salvage.Check     `json:"checkpoints"`
	Sources     []SourceReport      `json:"sources"`
	Unread      []UnreadSource      `json:"unread,omitempty"`
	Missing     []salvage.Fault     `json:"missing"`
	Streams     []salvage.Lost      `json:"streams,omitempty"`      // with events after missing ones
	MoreStreams uint64              `json:"more_streams,omitempty"` // number of further such streams
	Conflicts   []salvage.Choice    `json:"conflicts,omitempty"`
	Findings    []audit.Finding     `json:"findings,omitempty"` // of the check of the new log
	Rest        string              `json:"rest,omitempty"`     // file with the readable events after the first missing one
	RestEvents  uint64              `json:"rest_events,omitempty"`

	Found int `json:"-"`
}

// Partial reports whether events are missing.
func (r Report) Partial() bool { return len(r.Missing) > 0 }

// SourceReport summarises a source.
type SourceReport struct {
	Name    string       `json:"name"`
	Kind    salvage.Kind `json:"kind"`
	Events  int          `json:"events"`      // number of readable events
	Alone   uint64       `json:"only_source"` // number of events that no other source has
	Trouble string       `json:"trouble,omitempty"`
}

func (s *salvaging) report(plan *salvage.Plan, built builtLog) Report {
	r := Report{
		Log: s.log, Whole: plan.Whole() && built.audit.OK(), Events: plan.Cut, Last: plan.Last, Proved: plan.Proved,
		Checkpoints: plan.Checks, Unread: s.unread, Missing: plan.Faults, Conflicts: plan.Choices,
		Streams: built.behind.Lost, MoreStreams: built.behind.More, RestEvents: built.behind.Events,
	}
	if !built.audit.OK() {
		r.Findings = built.audit.Findings
	}
	for i, source := range s.sources {
		r.Found += len(source.Places)
		r.Sources = append(r.Sources, SourceReport{source.Name, source.Kind, len(source.Places), plan.Alone[i], source.Trouble})
	}
	return r
}

// WriteText writes the report as text.
func (r Report) WriteText(w io.Writer) error {
	var out strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&out, "%-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("Log", "%s", r.Log)
	row("Events", "%d of %d, proved up to position %d", r.Events, r.Last, r.Proved)
	for _, c := range r.Checkpoints {
		row("Checkpoint", "%s: %s: %s", c.Name, cli.Count(c.Size, "event"), c.Outcome)
	}
	for _, c := range r.Sources {
		row("Source", "%s: %s, %d of which no other has", c.Name, cli.Count(c.Events, "event"), c.Alone)
	}
	for i, f := range r.Missing {
		if i == maxShown {
			row("", "and %d more", len(r.Missing)-i)
			break
		}
		row("Missing", "%s", faultText(f))
	}
	for i, l := range r.Streams {
		if i == maxShown {
			row("", "and %d more; --json lists them", uint64(len(r.Streams)-i)+r.MoreStreams)
			break
		}
		row("Stream", "%s", lostText(l))
	}
	for i, c := range r.Conflicts {
		if i == maxShown {
			row("", "and %d more; --json lists them", len(r.Conflicts)-i)
			break
		}
		taken := "none was taken"
		if len(c.Taken) > 0 {
			taken = "that of " + strings.Join(c.Taken, " and ") + " was taken"
		}
		row("Conflict", "position %d: copies differ, %s", c.Position, taken)
	}
	for _, f := range r.Findings {
		row("Finding", "%s", f)
	}
	if r.Rest != "" {
		row("Rest", "%s: %s behind position %d", r.Rest, cli.Count(r.RestEvents, "event"), r.Events)
	}
	if r.Written != "" {
		row("Written", "%s", r.Written)
		fmt.Fprintf(&out, "\nNext: payledger restore %s --data DIR --force\n", r.Written)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// maxShown bounds each list in the text.
const maxShown = 20

func faultText(f salvage.Fault) string {
	at := fmt.Sprintf("position %d", f.From)
	if f.Through > f.From {
		at = fmt.Sprintf("positions %d to %d", f.From, f.Through)
	}
	text := at + ": " + string(f.Why)
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	return text
}

func lostText(l salvage.Lost) string {
	what := l.Kind + " " + l.ID
	if l.Kind == eventstore.KindPayment {
		what += " of project " + l.Project
	}
	at := fmt.Sprintf("before position %d", l.Before)
	if l.Position != 0 {
		at = fmt.Sprintf("the last of them at position %d", l.Position)
	}
	if l.From == l.Through {
		return fmt.Sprintf("%s lacks its event %d, %s", what, l.From, strings.TrimPrefix(at, "the last of them "))
	}
	return fmt.Sprintf("%s lacks its events %d to %d, %s", what, l.From, l.Through, at)
}
