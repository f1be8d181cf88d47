package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"payledger/domain"
)

// Details answers a request on DetailsSubject: what a payment is for, which the messages of
// EVENTS do not say, since it can be erased. Code is the problem's where there is no answer.
type Details struct {
	PaymentID   domain.ID            `json:"payment_id"`
	Status      domain.PaymentStatus `json:"status,omitzero"`
	Amount      domain.Amount        `json:"amount,omitzero"`
	Currency    domain.Currency      `json:"currency,omitzero"`
	Description *string              `json:"description"` // null: none, or erased
	Payload     jsontext.Value       `json:"payload,omitzero"`
	ErasedAt    domain.Instant       `json:"erased_at,omitzero"`

	Code domain.Code `json:"code,omitzero"`
}

const (
	detailsPrefix = "payledger.v1.details."

	// Requests that wait for an answer; what comes beyond them is dropped, and whoever asked asks again.
	maxDetailsWaiting = 1024
	maxDetailsBytes   = 1 << 20
)

// DetailsSubject is where the details of payments of a project are asked for: of one payment, or
// with "*" those of all.
func DetailsSubject(project, payment string) string { return detailsPrefix + project + "." + payment }

// AnswerDetails answers requests for details until ctx ends, one after the other. find finds a
// payment as the log has it now. The subject alone says which project's payment is asked for, and
// the permissions of who asks say which subjects those may be.
func (c *Conn) AnswerDetails(ctx context.Context, find func(ctx context.Context, project string, id domain.ID) (domain.Payment, error)) error {
	subject := DetailsSubject("*", "*")
	s, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
		// An answer goes to inboxes alone: anywhere else it would be a message in our name.
		if !strings.HasPrefix(m.Reply, "_R_.") && !strings.HasPrefix(m.Reply, inboxPlain) {
			return
		}
		project, text, _ := strings.Cut(strings.TrimPrefix(m.Subject, detailsPrefix), ".")
		id, ok := domain.ParseID(text)
		d := Details{PaymentID: id, Code: domain.PaymentNotFound}
		if ok {
			p, err := find(ctx, project, id)
			switch refused, is := errors.AsType[*domain.Refusal](err); {
			case is:
				d.Code = refused.Code
			case err != nil:
				d.Code = domain.Unavailable
			default:
				d = Details{
					PaymentID: id, Status: p.Status, Amount: p.Amount, Currency: p.Currency,
					Description: p.Description, Payload: jsontext.Value(p.Payload), ErasedAt: p.ErasedAt,
				}
			}
		}
		// An answer that cannot be written or sent is asked for again.
		if answer, err := json.Marshal(d, jsontext.PreserveRawStrings(true)); err == nil {
			_ = m.Respond(answer)
		}
	})
	if err == nil {
		err = s.SetPendingLimits(maxDetailsWaiting, maxDetailsBytes)
	}
	if err != nil {
		return fmt.Errorf("subscribing to %s: %w", subject, err)
	}
	<-ctx.Done()
	_ = s.Unsubscribe() // it fails where the connection is closed
	return nil
}
