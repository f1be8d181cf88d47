package nodelanes

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/members"
	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/edge"
	"payledger/notifier/delivery"
	"payledger/notifier/health"
	"payledger/notifier/webhook"
)

const (
	// takenWithin is how long a node looks for one that takes up a question, and
	// askAgain how long it waits before it asks again.
	takenWithin = 3 * time.Second
	askAgain    = 50 * time.Millisecond

	// readTime is how long an answer that changes nothing is waited for, before the
	// question is asked again.
	readTime = 2 * time.Second
)

// door is the deliveries of a node of a cluster as requests reach them: those of the
// sequencer, which the other nodes ask.
type door struct {
	lanes   atomic.Pointer[delivery.Lanes] // nil: another node is the sequencer
	node    *members.Node
	secrets *webhook.Secrets
	check   func(url string) error
}

// ask has a question answered by this node, if it has the lanes, or by the sequencer.
func (d *door) ask(ctx context.Context, q question) (a answer, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	for until := time.Now().Add(takenWithin); ; {
		a, err = d.askOnce(ctx, q, body)
		again := errors.Is(err, members.ErrNotTaken) || q.again() && errors.Is(err, members.ErrNoAnswer)
		if !again || time.Now().After(until) || !health.Pause(ctx, askAgain) {
			break
		}
	}
	switch {
	case errors.Is(err, errUnknown):
		err = edge.Unavailable("10", "The server that sends the webhooks runs an older program, which does not know what is asked. Try again once it is upgraded; nothing was done.")
	case errors.Is(err, members.ErrNotTaken), q.again() && errors.Is(err, members.ErrNoAnswer):
		err = edge.Unavailable("1", "The server that sends the webhooks cannot be reached just now. Try again.")
	case errors.Is(err, members.ErrNoAnswer):
		d.node.Report(err)
		err = edge.Unavailable("1", "The server that sends the webhooks has not answered. It may have happened: look at the deliveries before you try again.")
	}
	return a, err
}

func (d *door) askOnce(ctx context.Context, q question, body []byte) (a answer, err error) {
	if lanes := d.lanes.Load(); lanes != nil {
		a, err = call(ctx, lanes, q)
		if errors.Is(err, delivery.ErrClosed) {
			err = members.ErrNotTaken
		}
		return a, err
	}
	sequencer := d.node.Store.Status().Leader
	if sequencer == "" || sequencer == d.node.Node {
		return a, members.ErrNotTaken
	}
	wait := members.AnswerTime
	if q.again() {
		wait = readTime
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	reply, err := d.node.Ask(ctx, sequencer, kind, body)
	if err != nil {
		return a, err
	}
	return decode(reply)
}

// Secret implements merchant.Webhooks, as do all of these.
func (d *door) Secret(endpoint string, s projects.Secret) (string, error) {
	return d.secrets.Secret(endpoint, s.KeyVersion, s.Generation)
}

// KeyVersion implements merchant.Webhooks.
func (d *door) KeyVersion() int { return d.secrets.Current() }

// CheckTarget implements merchant.Webhooks.
func (d *door) CheckTarget(url string) error { return d.check(url) }

// Changed implements merchant.Webhooks. Where the sequencer does not hear of it, it
// finds the change at its next try.
func (d *door) Changed(endpoint string) {
	if lanes := d.lanes.Load(); lanes != nil {
		lanes.Changed(endpoint)
		return
	}
	if err := d.tell(question{Op: opChanged, Endpoint: endpoint}); err != nil {
		d.node.Report(err)
	}
}

// tell tells the sequencer something, if there is one.
func (d *door) tell(q question) error {
	sequencer := d.node.Store.Status().Leader
	body, err := json.Marshal(q)
	if err != nil || sequencer == "" {
		return err
	}
	return d.node.Tell(sequencer, kind, body)
}

// Test implements merchant.Webhooks.
func (d *door) Test(ctx context.Context, project, endpoint string) (domain.DeliveryObject, error) {
	a, err := d.ask(ctx, question{Op: opTest, Project: project, Endpoint: endpoint})
	return a.Delivery, err
}

// Resend implements merchant.Webhooks.
func (d *door) Resend(ctx context.Context, project, endpoint string, event domain.ID) (domain.DeliveryObject, error) {
	a, err := d.ask(ctx, question{Op: opResend, Project: project, Endpoint: endpoint, Event: event})
	return a.Delivery, err
}

// RecoverSince implements merchant.Webhooks.
func (d *door) RecoverSince(ctx context.Context, project, endpoint string, since domain.Instant) (int, error) {
	a, err := d.ask(ctx, question{Op: opRecover, Project: project, Endpoint: endpoint, Since: since})
	return a.Enqueued, err
}

// Deliveries implements merchant.Webhooks.
func (d *door) Deliveries(ctx context.Context, f domain.DeliveryFilter) (domain.DeliveryPage, error) {
	a, err := d.ask(ctx, question{Op: opList, Filter: f})
	return a.Page, err
}

// Health implements merchant.Webhooks.
func (d *door) Health(ctx context.Context, endpoint string) (domain.EndpointHealth, error) {
	a, err := d.ask(ctx, question{Op: opHealth, Endpoint: endpoint})
	return a.Health, err
}

// Open is how many notifications are in line, and undelivered.
func (d *door) Open(ctx context.Context) (pending, undelivered int, err error) {
	a, err := d.ask(ctx, question{Op: opCount})
	return a.Pending, a.Undelivered, err
}
