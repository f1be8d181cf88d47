package audit

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"time"

	"payledger/domain"
)

// explain says why an event cannot have been recorded in a state, nil when it
// can. It decides the command that the event must have come from again; what
// the event does not tell, such as a project's settings at that moment, is
// taken as the event needs it, within the limits that hold always.
//
// When a rule of the domain is changed, events recorded under the old one must
// stay possible here.

// explainPayment is explain for a payment's event recorded at the instant, in a
// version of the event.
func explainPayment(p domain.Payment, e domain.Event, version int, at domain.Instant) error {
	if !knowsStart(e, version) {
		p.CreatedAt = 0 // no attempt began before
	}
	var cmd domain.PaymentCommand
	signal := func(s domain.Signal) error {
		cmd = domain.ApplySignal{Signal: s}
		return s.Validate()
	}
	var err error
	switch e := e.(type) {
	case domain.PaymentCreated:
		cmd, err = creation(p, e, at)
	case domain.PaymentRouteAssigned:
		table := domain.RoutingTable{{Route: e.Route, Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 1}}
		cmd, err = domain.AssignRoute{Table: table}, table.Validate()
	case domain.PaymentPaid:
		err = signal(e.Signal)
	case domain.PaymentExpired:
		cmd = domain.ExpirePayment{At: at}
		if e.Signal != nil {
			err = signal(*e.Signal)
		}
	case domain.PaymentFailed:
		cmd = domain.AssignRoute{} // no route takes it
		if e.Signal != nil {
			err = signal(*e.Signal)
		}
	case domain.PaymentSignalRefused:
		if version < 2 {
			p.Refused = 0 // every one was recorded then
		}
		apply := domain.ApplySignal{
			Signal: e.Signal, Unrecorded: e.Unrecorded, ReferenceUsed: e.Reason == domain.ReasonReferenceUsed,
		}
		if e.Reason == domain.ReasonReferenceConflict && p.LateFunds > domain.MaxLateFunds {
			// The reference may be that of late funds which the payment does not
			// keep: of this alone the event is believed.
			other := e.Signal
			other.Amount++
			apply.Earlier = &other
		}
		cmd, err = apply, e.Signal.Validate()
	case domain.PaymentLateFunds:
		err = signal(e.Signal)
	case domain.RefundCreated:
		cmd = domain.CreateRefund{At: e.CreatedAt, RefundID: e.RefundID, Idempotency: e.Idempotency}
		err = sameTime(at, e.CreatedAt, e.RefundID)
	case domain.RefundSucceededEvent:
		err = signal(e.Signal)
	case domain.RefundFailedEvent:
		err = signal(e.Signal)
	default:
		return errors.New("it is no event of a payment")
	}
	if err != nil {
		return err
	}
	if p.Status == "" && e.Type() != domain.TypePaymentCreated {
		return errors.New("the payment was not created before")
	}
	got, err := p.Decide(cmd)
	return same(got, err, e, "a payment that is ", string(p.Status))
}

// knowsStart reports whether an event was recorded under the rule that an attempt
// must not have begun before its payment was created. For payment.failed and
// payment.expired that is not known.
func knowsStart(e domain.Event, version int) bool {
	switch e := e.(type) {
	case domain.PaymentPaid, domain.PaymentLateFunds:
		return version >= 2
	case domain.PaymentSignalRefused:
		return version >= 2 || e.Reason == domain.ReasonStartedEarly
	case domain.PaymentFailed, domain.PaymentExpired:
		return false
	}
	return true
}

// creation is the command that an event of a new payment came from.
func creation(p domain.Payment, e domain.PaymentCreated, at domain.Instant) (domain.PaymentCommand, error) {
	if p.Status != "" {
		return nil, errors.New("the payment was created before")
	}
	if len(e.Payload) == 0 || e.Payload[0] != '{' {
		return nil, errors.New("the payload is not a JSON object")
	}
	lifetime := e.ExpiresAt - e.CreatedAt
	settings := domain.Settings{
		Currencies: []domain.Currency{e.Currency}, MaxAmount: domain.MaxAmount, LifetimeSeconds: int(lifetime / 1000),
	}
	if d := time.Duration(lifetime) * time.Millisecond; d < domain.MinLifetime || d > domain.MaxLifetime {
		return nil, fmt.Errorf("it expires %s after its creation, which no project can set", d)
	}
	return domain.CreatePayment{
		At: e.CreatedAt, Amount: e.Amount, Currency: e.Currency, Description: e.Description, Payload: e.Payload,
		Settings: settings, Link: e.Link, Idempotency: e.Idempotency,
	}, sameTime(at, e.CreatedAt, p.ID)
}

// sameTime holds of what an event creates: its id, its created_at and the
// event name one instant.
func sameTime(event, created domain.Instant, id domain.ID) error {
	if event != created || event != domain.IDTime(id) {
		return fmt.Errorf("it was recorded at %s, says it was created at %s, and has an id of %s", event, created, domain.IDTime(id))
	}
	return nil
}

// explainProject is explain for a project's event recorded at the instant.
func explainProject(p domain.Project, e domain.Event, at domain.Instant) error {
	var cmd domain.ProjectCommand
	named := at // by the event itself, where it names a time
	switch e := e.(type) {
	case domain.ProjectRegistered:
		if p.Name != "" {
			return errors.New("the project was registered before")
		}
		cmd = domain.RegisterProject(e)
	case domain.ProjectChanged:
		cmd = domain.ChangeProject(e)
	case domain.ProjectDisabled:
		cmd = domain.DisableProject(e)
	case domain.KeyIssued:
		cmd = domain.IssueKey(e)
	case domain.KeyRevoked:
		cmd = domain.RevokeKey(e)
	case domain.WebhookEndpointAdded:
		named = e.CreatedAt
		cmd = domain.AddEndpoint{
			At: at, EndpointID: e.EndpointID, URL: e.URL, Kinds: e.Kinds, Description: e.Description, KeyVersion: e.KeyVersion,
		}
	case domain.WebhookEndpointChanged:
		cmd = domain.ChangeEndpoint(e)
	case domain.WebhookEndpointDisabled:
		named = e.At
		cmd = domain.DisableEndpoint(e)
	case domain.WebhookEndpointEnabled:
		cmd = domain.EnableEndpoint(e)
	case domain.WebhookEndpointRemoved:
		cmd = domain.RemoveEndpoint(e)
	case domain.WebhookSecretRotated:
		overlap := time.Duration(e.PreviousUntil-at) * time.Millisecond
		cmd = domain.RotateSecret{At: at, EndpointID: e.EndpointID, Overlap: overlap, KeyVersion: e.KeyVersion}
	default:
		return errors.New("it is no event of a project")
	}
	if named != at {
		return fmt.Errorf("it was recorded at %s and says it happened at %s", at, named)
	}
	got, err := p.Decide(cmd)
	return same(got, err, e, "this project", "")
}

// same says why an event is not the one that the rules lead to. The state is
// named in two parts, which are put together only when something is wrong.
func same(got domain.Event, err error, e domain.Event, what, state string) error {
	switch {
	case err != nil:
		return fmt.Errorf("%s cannot be of %s%s: %w", e.Type(), what, state, err)
	case got == nil:
		return fmt.Errorf("%s cannot be of %s%s: there was nothing left to do", e.Type(), what, state)
	case got.Type() != e.Type():
		return fmt.Errorf("%s cannot be of %s%s: the rules lead to %s", e.Type(), what, state, got.Type())
	case !alike(got, e):
		return fmt.Errorf("%s of %s%s has members that the rules do not lead to", e.Type(), what, state)
	}
	return nil
}

// alike is reflect.DeepEqual of events of one type. The event that is decided
// again mostly points to what it was made from, so that == suffices.
func alike(got, e domain.Event) bool {
	if e, ok := e.(domain.PaymentCreated); ok {
		return alikeCreated(got.(domain.PaymentCreated), e)
	}
	return (reflect.TypeOf(e).Comparable() && got == e) || reflect.DeepEqual(got, e)
}

func alikeCreated(a, b domain.PaymentCreated) bool {
	return a.CreatedAt == b.CreatedAt && a.ExpiresAt == b.ExpiresAt && a.Amount == b.Amount && a.Currency == b.Currency &&
		alikePointers(a.Description, b.Description) && bytes.Equal(a.Payload, b.Payload) && a.Link == b.Link &&
		alikePointers(a.Idempotency, b.Idempotency)
}

func alikePointers[T comparable](a, b *T) bool { return a == b || (a != nil && b != nil && *a == *b) }
