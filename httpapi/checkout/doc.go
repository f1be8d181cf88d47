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
// The page works without script and without cookies. A form carries a token
// of its own, and all forms of a payment mean one attempt at the provider:
// however many are sent, and however often, one counts. With script the page
// changes by itself: while it is seen it asks for the payment's status every two
// seconds.
package checkout
