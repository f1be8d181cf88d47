// Package domain is the business of payledger, pure: amounts, ids, statuses,
// events, and the two aggregates, Payment (which owns its refunds) and
// Project.
//
// Each aggregate is a value with two methods. Decide says which event, if
// any, a command leads to; Evolve folds an event into the next value. Neither
// touches a clock, a random source, a network or a disk: time and ids come in
// with the command. Everything that may happen to a payment is therefore
// listed in payment.go, and the forward-only rule stands once, in
// PaymentStatus.CanBecome.
//
// The package knows no storage and no JSON library. The structs that leave
// the program (events, PaymentObject, RefundObject) carry json tags only.
package domain
