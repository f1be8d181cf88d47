// Package httpapi puts the rooms of the public handler together: New, and in
// routes.go the one table of routes; notifications.go takes what providers send
// to /connectors/{route}.
//
//	edge      a request in, an answer out
//	wire      the JSON shapes
//	merchant  what merchants can have done, as functions and as handlers
//	webhooks  the same for their endpoints and deliveries
//	docs      the documentation and the pages of error codes
//	checkout  the customer's payment page
//	account   the merchant's account
//	admin     the operator's socket, a handler of its own
//	peer      the port at which the nodes of a cluster reach each other
//	conns     the bounds on connections; ui what the pages share; wire what JSON there is
//
// A request under /v1 is checked in this order, and the first check that
// refuses it decides the answer:
//
//	merchant/auth.go         401 unauthorized, 403 project_disabled
//	edge/router.go           404 path_not_found or version_not_supported, 405
//	merchant/caller.go       403 scope_missing, 429 rate_limited
//	edge/body.go             415 unsupported_media_type, 413 body_too_large
//	edge/decode.go           400 body_required, invalid_encoding,
//	                         malformed_json, duplicate_member
//	merchant/idempotency.go  400 idempotency_key_invalid
//	merchant/payments.go …   400 idempotency_key_required, 422
//	                         validation_failed, all fields at once; then the
//	                         command, where an idempotency key that was used
//	                         before is found before any limit or state
//
// Handlers and operations return errors; only edge/problem.go turns them into answers.
//
// The pages of the account call the same operations as functions: a session
// gives them a Caller, with which each operation checks scope and budget itself.
package httpapi
