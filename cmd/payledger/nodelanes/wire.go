package nodelanes

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/members"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/delivery"
)

// kind is that of the questions about deliveries.
const kind = "deliveries"

// What is asked of the sequencer.
const (
	opTest    = "test"
	opResend  = "resend"
	opRecover = "recover"
	opList    = "list"
	opHealth  = "health"
	opCount   = "count"
	opChanged = "changed" // without an answer
)

// errUnknown: the sequencer does not know what is asked, and did nothing.
var errUnknown = errors.New("the sequencer runs an older program, which does not know what is asked: upgrade it")

// question is a call of delivery.Lanes, in JSON. A program refuses one that it does not
// know as a whole.
type question struct {
	Op       string                `json:"op"`
	Project  string                `json:"project,omitzero"`
	Endpoint string                `json:"endpoint,omitzero"`
	Event    domain.ID             `json:"event,omitzero"`
	Since    domain.Instant        `json:"since,omitzero"`
	Filter   domain.DeliveryFilter `json:"filter,omitzero"`
}

// again reports whether the question may be asked again, although it may have been
// answered: it changes nothing.
func (q question) again() bool { return q.Op == opList || q.Op == opHealth || q.Op == opCount }

// answer is what the call answers, in JSON. Older programs leave out members that they do
// not know: so a new kind of error has its text in Trouble too.
type answer struct {
	Delivery    domain.DeliveryObject `json:"delivery,omitzero"`
	Page        domain.DeliveryPage   `json:"page,omitzero"`
	Health      domain.EndpointHealth `json:"health,omitzero"`
	Enqueued    int                   `json:"enqueued,omitzero"`
	Pending     int                   `json:"pending,omitzero"`
	Undelivered int                   `json:"undelivered,omitzero"`

	Refusal *domain.Refusal `json:"refusal,omitzero"`
	Full    bool            `json:"full,omitzero"`
	Unknown bool            `json:"unknown,omitzero"` // errUnknown
	Trouble string          `json:"trouble,omitzero"` // any other error
}

// call has lanes carry out what is asked for.
func call(ctx context.Context, l *delivery.Lanes, q question) (a answer, err error) {
	switch q.Op {
	case opTest:
		a.Delivery, err = l.Test(ctx, q.Project, q.Endpoint)
	case opResend:
		a.Delivery, err = l.Resend(ctx, q.Project, q.Endpoint, q.Event)
	case opRecover:
		a.Enqueued, err = l.RecoverSince(ctx, q.Project, q.Endpoint, q.Since)
	case opList:
		a.Page, err = l.Deliveries(ctx, q.Filter)
	case opHealth:
		a.Health, err = l.Health(ctx, q.Endpoint)
	case opCount:
		a.Pending, a.Undelivered = l.Open()
	case opChanged:
		l.Changed(q.Endpoint)
	default:
		err = errUnknown
	}
	return a, err
}

// answer answers another node. It is empty, so that the other node asks again, while
// this one has no lanes.
func (d *door) answer(ctx context.Context, b []byte) []byte {
	lanes := d.lanes.Load()
	if lanes == nil {
		return nil
	}
	out, err := answerTo(b, func(q question) (answer, error) { return call(ctx, lanes, q) })
	if err != nil {
		d.node.Report(fmt.Errorf("an answer about deliveries: %w", err))
	}
	return out
}

// answerTo is the answer to a question, which call carries out; empty: it was not taken
// up. A list that is too long for an answer gets fewer rows, and goes on behind them.
func answerTo(asked []byte, call func(question) (answer, error)) ([]byte, error) {
	var q question
	if json.Unmarshal(asked, &q, json.RejectUnknownMembers(true)) != nil {
		return encode(answer{}, errUnknown)
	}
	for {
		a, err := call(q)
		if errors.Is(err, delivery.ErrClosed) {
			return nil, nil
		}
		out, err := encode(a, err)
		rows := len(a.Page.Deliveries)
		if err != nil || len(out) <= members.MaxAnswer || rows <= 1 {
			return out, err
		}
		q.Filter.Limit = rows / 2
	}
}

func encode(a answer, err error) ([]byte, error) {
	switch {
	case err == nil, errors.As(err, &a.Refusal):
	case errors.Is(err, eventstore.ErrFull):
		a.Full = true
	case errors.Is(err, errUnknown):
		a.Unknown, a.Trouble = true, err.Error()
	default:
		a.Trouble = err.Error()
	}
	return json.Marshal(a)
}

// decode reads an answer, and the error in it.
func decode(b []byte) (a answer, err error) {
	if err := json.Unmarshal(b, &a); err != nil {
		return a, fmt.Errorf("%w: %w", members.ErrNoAnswer, err)
	}
	switch {
	case a.Refusal != nil:
		return a, a.Refusal
	case a.Full:
		return a, eventstore.ErrFull
	case a.Unknown:
		return a, errUnknown
	case a.Trouble != "":
		return a, fmt.Errorf("%w: %s", members.ErrNoAnswer, a.Trouble)
	}
	return a, nil
}
