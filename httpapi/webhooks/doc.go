// Package webhooks is what merchants can have done with their webhook endpoints
// and with deliveries to them. It is built as package merchant is: each operation
// is a method of API, which admits its Caller by merchant.API.Admit first, and
// above it stands its handler, a method of Handlers.
//
//	routes.go      the rows of the table of routes, for a project's own key and
//	               for the operator
//	endpoints.go   add, list, change, remove, rotate the secret, enable, disable
//	deliveries.go  list, resend, recover, send endpoint.test
//
// Sending is the notifier's. What this room needs of it is the interface
// merchant.Webhooks.
package webhooks
