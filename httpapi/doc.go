// Package httpapi is everything that is spoken over HTTP: the merchants' API
// under /v1, the pages behind it (problem pages, documentation, health), and
// the administration that the program serves on a unix socket.
//
// A request passes through these rooms, one file each, and the first that
// refuses it decides the answer:
//
//	exchange.go     request id, recovery, one log record, metrics
//	auth.go         401 unauthorized, 403 project_disabled
//	routes.go       404 path_not_found or version_not_supported, 405
//	                method_not_allowed, then 403 scope_missing
//	limit.go        429 rate_limited
//	body.go         415 unsupported_media_type, 413 body_too_large
//	decode.go       400 body_required, invalid_encoding, malformed_json,
//	                duplicate_member
//	idempotency.go  400 idempotency_key_required, idempotency_key_invalid
//	payments.go …   422 validation_failed, all fields at once; then the
//	                command, where an idempotency key that was used before
//	                is found before any limit or state is looked at
//
// Handlers return errors; problem.go alone turns them into answers.
//
// The pages of the account are a client in the same process: inprocess.go lets
// their requests in behind authentication, to the same routes and to those of
// accountroutes.go, which the network does not reach.
package httpapi
