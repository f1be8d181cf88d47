// Package acquirer connects payledger with those who collect the money. An
// acquirer serves one route: it hears of payments assigned to its route and
// of refunds asked of it, and reports what became of them as signals on NATS.
// It never touches the ledger: the enforcer judges every signal.
//
// A new acquirer is a file here and a row in All.
package connector

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"payledger/domain"
)

// Connector is the connector of one route.
//
// Assigned and RefundRequested are called once or more for the same payment
// or refund, in the order of the payment's events; telling twice must not
// collect or return money twice. An error, unless ctx has ended, makes the
// call be repeated after a pause. Calls for one acquirer come one at a time
// and delay no other acquirer.
//
// What was told before the process ended may not be told again by the next
// one: an acquirer that has to start something at its provider recovers by
// itself what it had not begun.
type Connector interface {
	// Route is the name routing rules know the acquirer by.
	Route() string
	// Assigned tells that the acquirer is to collect the payment.
	Assigned(ctx context.Context, p domain.Payment) error
	// RefundRequested tells that the payment's whole amount is to be returned.
	RefundRequested(ctx context.Context, p domain.Payment, r domain.Refund) error
}

// Env is what acquirers are made from.
type Env struct {
	NATS *nats.Conn
	Now  func() time.Time
	Log  zerolog.Logger
}
