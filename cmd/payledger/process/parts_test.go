package process

import (
	"context"
	"errors"
	"slices"
	"testing"

	"payledger/cmd/payledger/cli"
)

// TestParts: the end of a part is known, its run ends before it is stopped, all stop in the reverse
// order of their start, and errors name their part.
func TestParts(t *testing.T) {
	t.Parallel()
	var stopped []string
	noted := func(name string, err error) Part {
		return Part{
			Run: func(ctx context.Context) error {
				<-ctx.Done()
				stopped = append(stopped, name+" ended")
				return ctx.Err()
			},
			Stop: func() error { stopped = append(stopped, name); return err },
		}
	}
	p := NewParts()
	p.Add("first", noted("first", nil))
	term := p.Sub()
	term.Add("duty", noted("duty", errors.New("late")))
	p.Add("term", Part{Stop: term.Stop})
	fail := make(chan error)
	p.Go("webhooks", func(context.Context) error { return <-fail })
	err := p.Start(t.Context(), "half", func(context.Context) (Part, error) { return noted("half", nil), errors.New("no room") })
	if err == nil || err.Error() != "half: no room" || p.Failed().Err() != nil {
		t.Errorf("start: %v", err)
	}
	err = p.Start(t.Context(), "listener", func(context.Context) (Part, error) { return Part{}, cli.Errorf(cli.ExitAddress, "--listen :1: in use") })
	if err == nil || err.Error() != "--listen :1: in use" {
		t.Errorf("an error that says what it is about: %v", err)
	}
	fail <- errors.New("the log is full")
	<-p.Failed().Done()
	if err := p.Stop(); err == nil || err.Error() != "webhooks: the log is full\nterm: duty: late" {
		t.Errorf("stop: %v", err)
	}
	if want := []string{"half", "duty ended", "duty", "first ended", "first"}; !slices.Equal(stopped, want) {
		t.Errorf("stopped %q, want %q", stopped, want)
	}
}
