// Package wire declares each JSON shape of the HTTP interfaces once, for who
// writes it and who reads it. Payments, refunds and deliveries are in domain,
// as their events need them too.
package wire
