// Package checkout serves the page on which a customer pays, and makes the
// links that lead to it.
//
// A link's token is not the payment's id but can be turned back into it with
// the master key alone, so nothing about links is stored. The page is a view
// of the log: every request reads the payment again, a result is shown only
// once it is recorded, and the customer's choice goes to the provider, never
// straight into the ledger. Description, payload and route stay with the
// merchant; only the receipt shows the payment's id, so that the shop can find
// the payment.
//
// The page works without script and without cookies. Each form has its own token, and all forms of
// a payment are for one attempt at the provider: of all that are sent, one counts. With script the
// page updates itself: while it is visible it polls the payment's status every two seconds.
package checkout
