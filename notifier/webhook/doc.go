// Package webhook is everything about one request that notifies a merchant: the secret it is signed
// with, the bytes of its body, its headers, the call itself and how long to wait before the next
// try. It has no queues: package delivery decides which notification is due, and when.
//
// # What is sent
//
// A POST over HTTP/1.1 whose body is JSON (see Body) and whose headers are
// these and no others:
//
//	Content-Type       application/json
//	User-Agent         what Config.UserAgent says
//	Webhook-Id         the event's id: the same for every attempt and endpoint
//	Webhook-Timestamp  when this attempt began, in Unix seconds
//	Webhook-Signature  "v1," and the signature; one for each secret, the newest first
//	Webhook-Attempt    1, 2, 3, …
//	Traceparent        that of the attempt or the event, where there is one
//
// Ids, timestamps and signatures are those of Standard Webhooks
// (https://www.standardwebhooks.com), so any of its libraries verifies them.
//
// # Where it is sent
//
// Only to https on port 443 or 8443 of a public address. Which addresses are
// not public is judged on the resolved address right before the connection is
// made, so neither a name that resolves to different addresses in turn nor an
// unusual spelling gets around it. Redirects are not followed and a proxy in
// the environment is not used.
//
// # How long it takes
//
// Name and connection have 5 s, the TLS handshake 5 s, the head of the answer 15 s from the
// beginning, its body, which decides nothing, 2 s more; 64 KiB are read at most. Contexts enforce
// these limits, and so does a deadline on the connection, because net/http does not observe the
// context in every use of a connection.
package webhook
