// Package webhooks is what merchants can have done with their webhook endpoints
// and with the deliveries to them. It is built as package merchant is: an
// operation is a method of API, which takes a merchant.Caller and admits it
// first; above it stands its handler, a row of the table in routes.go.
//
//	routes.go      the rows, for a project's own key and for the operator
//	endpoints.go   add, list, change, remove, rotate the secret, enable, disable
//	deliveries.go  list, resend, recover, send endpoint.test
//	request.go     bodies of requests
//
// Sending is the notifier's. What this room needs of it is the interface
// merchant.Webhooks.
package webhooks
