// Package domain holds the business rules of payledger as pure code: amounts,
// ids, statuses, events, and the aggregate Payment, which owns its refunds. The
// other aggregates are in domain/projects, domain/installation, domain/deliveries
// and domain/settlement.
//
// An aggregate is a value with two methods. Decide returns the event, if any,
// that a command leads to; Evolve returns the value after an event. Neither
// uses a clock, a random source, the network or the disk: the command carries
// times and ids. So payment.go lists everything that can happen to a payment,
// and the forward-only rule is in one place, PaymentStatus.CanBecome.
//
// The package imports no storage and no JSON library. The structs that leave
// the program (events, PaymentObject, RefundObject) have json tags only.
package domain
