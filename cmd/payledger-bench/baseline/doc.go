// Package baseline holds programs that do a part of what payledger does as cheaply as possible, to
// be measured in the same run. They check the same key in the same way, take the same requests and
// send answers of the same form and size. Those that store something have written and synced it
// before they answer.
//
//	bare        net/http, mux, the key's check: nothing is stored
//	map         the same, payments in a map
//	bbolt       the same, payments in a bbolt file, one transaction for all that wait
//	ceiling     the same, events of the service's size at the end of a plain file:
//	            one append and one sync for all that wait
//	ceiling+    the ceiling, and for each payment a publish to an embedded
//	            JetStream and a delivery from it
//	R3          the same, events in a JetStream stream of three servers that sync
//	            before they answer: one publish for all that wait
//	PostgreSQL  the same, a payment, its idempotency key and an outbox in one
//	            transaction and one round trip
//
// One more, the sink, only takes webhooks.
package baseline
