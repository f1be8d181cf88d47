// Package webhooks is the operations of merchants on their webhook endpoints and the deliveries to
// them. It is built like package merchant: an operation is a method of API, which takes a
// merchant.Caller and admits it first; its handler is a row of the table in routes.go.
//
//	routes.go      the rows, for a project's own key and for the operator
//	endpoints.go   add, list, change, remove, rotate the secret, enable, disable
//	deliveries.go  list, resend, recover, send endpoint.test
//	request.go     bodies of requests
//
// The notifier sends. What this package needs of it is the interface merchant.Webhooks.
package webhooks
