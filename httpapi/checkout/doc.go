// Package checkout serves the page on which a customer pays, and makes the
// links that lead to it.
//
// A link's token is not the payment's id but can be turned back into it with
// the master key alone, so nothing about links is stored. The page is a view
// of the log: every request reads the payment anew, a result is shown only
// once it is recorded, and what the customer chooses goes to the provider,
// never straight into the ledger. Description, payload, ids and route stay
// with the merchant.
//
// The page works without script and without cookies. A form carries a token
// of its own, whose nonce becomes the provider's reference of the attempt:
// however often one form is sent, it counts once.
package checkout
