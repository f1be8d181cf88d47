// Package connectortest holds what the tests of all connectors share: the
// provider that a test controls, and the tests that every connector must pass.
package connectortest

import (
	"net/http"
	"sync"

	"payledger/domain"
	"payledger/notifier/connector"
)

// Provider is a provider under the control of a test. It keeps state as the real
// one does: idempotency keys with their answers, attempts, refunds and money.
// Safe for concurrent use.
type Provider interface {
	// Connector is a connector of the type under test, connected with it.
	Connector() connector.Connector

	// Pay, Decline and Expire are what becomes of an attempt. A decline closes the
	// attempt, or leaves it open for another card, as the provider does. The answer
	// is false when the attempt cannot become that any more.
	Pay(reference string) bool
	Decline(reference string) bool
	Expire(reference string) bool
	// RefundByHand returns an attempt's money without being asked by the connector.
	RefundByHand(reference string) bool
	// SettleRefund ends a refund that is pending.
	SettleRefund(id domain.ID, succeeded bool) bool

	// TakeBack gives the provider the money of the attempt's refund back, which has succeeded: the
	// customer's bank did not take it.
	TakeBack(reference string) bool

	// Dispute is the customer who disputes the attempt's money, and EndDispute the bank that decides
	// all its open disputes. Both are false where the provider tells of no disputes.
	Dispute(reference string) bool
	EndDispute(reference string, won bool) bool

	// Attempts are the references of all attempts that the provider has made for
	// a payment.
	Attempts(payment domain.ID) []string

	// Fault lets the connector's next after requests be answered, and makes the n that follow fail in
	// this way, instead of an earlier fault; with n = 0 all are answered again. StoredError counts
	// only requests with an idempotency key.
	Fault(f Fault, after, n int)
	// ForgetKeys forgets all idempotency keys, as providers do after a day or so.
	ForgetKeys()
	// WrongAmount makes the provider collect another amount in the attempts begun
	// from now on.
	WrongAmount()

	// Sent takes the notifications that the provider has sent since the last call.
	// The test delivers them: late, twice, in another order, or never.
	// A provider that sends no notifications over HTTP answers none here, and has
	// no Forged body.
	Sent() []Notification
	// Forged is a notification about the attempt that is not the provider's, or
	// cannot be told from its own but says what is not true.
	Forged(reference string) Notification
	// Signed is a notification of the provider's with any body, signed where it
	// signs them.
	Signed(body []byte) Notification
	// Foreign are notifications of the provider's that concern no attempt of the
	// connector's: of unknown kinds, and about what others make there.
	Foreign() []Notification

	// Collected and Returned are the money that the provider has moved.
	Collected() []Money
	Returned() []Money

	// Secrets are what may never be in an error or the log.
	Secrets() []string
}

// Notification is one request to POST /connectors/{route}.
type Notification struct {
	Header http.Header
	Body   []byte
}

// Money is an amount that was collected by an attempt, or returned.
type Money struct {
	Reference string // of the attempt
	Payment   domain.ID
	Amount    domain.Amount
	Currency  domain.Currency
}

// Fault is how a call fails.
type Fault int

// The faults.
const (
	Down        Fault = iota + 1 // no connection: nothing is done
	ErrorBefore                  // a server error: nothing is done
	ErrorAfter                   // it is done, but the answer is lost
	StoredError                  // a server error that is repeated for the same key; nothing is done
	Busy                         // too many calls: 429 with Retry-After of one second
	Garbage                      // it is done, but the answer cannot be read
	Endless                      // it is done, and the answer does not end
	Silent                       // it is done, and no answer is sent until the caller gives up
)

// Faults are those of a Provider, as its Fault says. The zero value has none. Safe
// for concurrent use.
type Faults struct {
	mu    sync.Mutex
	fault Fault
	after int // requests that it leaves alone
	left  int // requests that it still ends
}

// Fault implements Provider.
func (f *Faults) Fault(fault Fault, after, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.after, f.left = fault, after, n
}

// Next is how the next request ends; 0: well. keyed: it has an idempotency key.
func (f *Faults) Next(keyed bool) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.left == 0, f.fault == StoredError && !keyed:
		return 0
	case f.after > 0:
		f.after--
		return 0
	}
	f.left--
	return f.fault
}
