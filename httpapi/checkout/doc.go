// Package checkout serves the page on which a customer pays, and makes the
// links that lead to it.
//
// A link's token is not the payment's id but can be turned back into it with
// the master key alone, so nothing about links is stored. The page is a view
// of the log: every request reads the payment anew, a result is shown only
// once it is recorded, and what the customer chooses goes to the provider,
// never straight into the ledger. Description, payload and route stay with the
// merchant; the payment's id stands on the receipt alone, for the shop to find
// it by.
//
// The page works without script and without cookies. A form carries a token
// of its own, and all forms of a payment mean one attempt at the provider:
// however many are sent, and however often, one counts. With script the page
// changes by itself, told by a stream of server-sent events, or by asking
// where no stream gets through.
package checkout
