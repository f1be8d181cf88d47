// Package connector connects payledger with the providers that collect the
// money. A connector serves one route: it is notified of payments that were
// assigned to the route and of refunds that were requested, and reports the
// outcomes as signals on NATS. It never touches the ledger: every signal is
// judged by package signals.
//
// A new connector is a file here and a row in All.
package connector

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"payledger/domain"
)

// Connector connects one route with its provider.
//
// Assigned and RefundRequested are called once or more for the same payment
// or refund, in the order of the payment's events; a second call must not
// collect or return money again. After an error, unless ctx has ended, the call
// is repeated after a pause. Calls for one connector come one at a time and
// delay no other connector.
//
// A call made before the process ended may not be repeated by the next process:
// a connector that has to start something at its provider must find out by
// itself what it had not begun.
type Connector interface {
	// Route is the connector's name in routing rules.
	Route() string
	// Assigned asks for the payment to be collected.
	Assigned(ctx context.Context, p domain.Payment) error
	// RefundRequested asks for the payment's whole amount to be returned.
	RefundRequested(ctx context.Context, p domain.Payment, r domain.Refund) error
}

// Env is what connectors are made from.
type Env struct {
	NATS    *nats.Conn
	Now     func() time.Time
	Log     zerolog.Logger
	Sandbox bool // the operator has turned the sandbox on

	// Setting is the value of one of a provider's own settings, empty if it is not
	// set: its URL, or the name of the file that holds its secret. It is that of
	// the environment variable PAYLEDGER_NAME.
	Setting func(name string) string
}
