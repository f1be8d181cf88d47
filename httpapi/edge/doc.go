// Package edge is the outer layer of HTTP: it turns a request into an Exchange and an error into an
// answer. It knows no payment and no log, so both listeners use it.
//
//	exchange.go  request id, recovery, one log record, metrics; answers
//	router.go    the router of a table of routes: 404 path_not_found or
//	             version_not_supported, 405 method_not_allowed
//	limit.go     token buckets: 429 rate_limited
//	body.go      415 unsupported_media_type, 413 body_too_large
//	decode.go    400 body_required, invalid_encoding, malformed_json,
//	             duplicate_member
//	query.go     400 invalid_parameter; cursor.go: invalid_cursor
//	problem.go   the one place where an error becomes a problem document, by
//	             the table in problemtable.go
//
// Answers are written by reflection, which takes 1.5 of some 7 µs of a GET's
// handler (a profile of BenchmarkHandler/GET in package httpapi).
package edge
