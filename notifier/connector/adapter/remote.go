package adapter

import (
	"context"
	"errors"
	"fmt"

	"payledger/notifier/connector"
)

// Transport sends a call to the program and returns the body of its answer, which is authenticated
// as its answer to this call. An error of the types of connector means what it means there.
type Transport func(ctx context.Context, call Call, body []byte) ([]byte, error)

// Connector asks a program for everything but notifications, and takes its answers for
// no more than claims. It keeps no state.
type Connector struct{ Transport Transport }

// Begin is connector.Connector's.
func (c Connector) Begin(ctx context.Context, a connector.Attempt) (connector.State, error) {
	_, s, err := c.attempt(ctx, Begin, a)
	if errors.Is(err, connector.ErrNotFound) {
		return s, errors.New("the adapter answers to begin that there is no such attempt")
	}
	return s, err
}

// Read is connector.Connector's.
func (c Connector) Read(ctx context.Context, a connector.Attempt) (connector.State, error) {
	_, s, err := c.attempt(ctx, Read, a)
	return s, unknownFate(err)
}

// Cancel is connector.Connector's.
func (c Connector) Cancel(ctx context.Context, a connector.Attempt) (connector.State, error) {
	_, s, err := c.attempt(ctx, Cancel, a)
	return s, unknownFate(err)
}

// attempt makes a call and returns its answer, and the state of the attempt in it.
func (c Connector) attempt(ctx context.Context, call Call, a connector.Attempt) (Answer, connector.State, error) {
	answer, err := c.call(ctx, call, a, nil)
	if err != nil {
		return answer, connector.State{}, err
	}
	s, err := answer.state()
	if known := call != Begin || a.Reference != ""; err == nil && known && s.Reference != a.Reference {
		err = errors.New("the answer is about another attempt")
	}
	if err != nil {
		return answer, connector.State{}, fmt.Errorf("%s: %w", call, err)
	}
	return answer, s, nil
}

// Refund is connector.Connector's.
func (c Connector) Refund(ctx context.Context, r connector.Refund) (connector.RefundState, error) {
	answer, err := c.call(ctx, Refund, r.Attempt, &r)
	if refused, ok := errors.AsType[*connector.RefusedError](err); ok {
		return connector.RefundState{ID: r.ID, Phase: connector.Closed, Reason: refused.Reason, Amount: r.Amount, Currency: r.Currency}, nil
	}
	if errors.Is(err, connector.ErrNotFound) {
		err = errors.New("the adapter answers to refund that there is no such attempt")
	}
	if err != nil {
		return connector.RefundState{}, unknownFate(err)
	}
	s, err := answer.refund()
	if err == nil && s.ID != r.ID {
		err = errors.New("the answer is about another refund")
	}
	if err != nil {
		return connector.RefundState{}, fmt.Errorf("%s: %w", Refund, err)
	}
	return s, nil
}

// Refunds is connector.Connector's: they come with the state of the attempt.
func (c Connector) Refunds(ctx context.Context, a connector.Attempt) ([]connector.RefundState, error) {
	answer, _, err := c.attempt(ctx, Read, a)
	if err != nil {
		return nil, unknownFate(err)
	}
	refunds := make([]connector.RefundState, len(answer.Refunds))
	for i, one := range answer.Refunds {
		if refunds[i], err = one.refund(); err != nil {
			return nil, fmt.Errorf("refund %d of the attempt: %w", i+1, err)
		}
	}
	return refunds, nil
}

// Disputes is connector.Connector's, as Refunds.
func (c Connector) Disputes(ctx context.Context, a connector.Attempt) ([]connector.DisputeState, error) {
	answer, _, err := c.attempt(ctx, Read, a)
	if err != nil {
		return nil, unknownFate(err)
	}
	disputes := make([]connector.DisputeState, len(answer.Disputes))
	for i, one := range answer.Disputes {
		if disputes[i], err = one.state(); err != nil {
			return nil, fmt.Errorf("dispute %d of the attempt: %w", i+1, err)
		}
	}
	return disputes, nil
}

func (c Connector) call(ctx context.Context, call Call, a connector.Attempt, r *connector.Refund) (Answer, error) {
	body, err := Encode(call, a, r, "")
	if err != nil {
		return Answer{}, fmt.Errorf("writing the call %s: %w", call, err)
	}
	got, err := c.Transport(ctx, call, body)
	if err != nil {
		return Answer{}, err
	}
	return Decode(got)
}

// unknownFate is for calls that cannot be refused for good: such an answer is an
// error like any other.
func unknownFate(err error) error {
	_, refused := errors.AsType[*connector.RefusedError](err)
	_, spent := errors.AsType[*connector.SpentKeyError](err)
	if refused || spent {
		return fmt.Errorf("this call cannot end so: %v", err) //nolint:errorlint // must not be taken for one of these types
	}
	return err
}
