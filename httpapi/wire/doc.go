// Package wire declares each JSON shape of the HTTP interfaces once, for who
// writes it and who reads it. Payments, refunds and deliveries are in domain,
// as their events need them too.
//
// It has the one reader of JSON that people write, too, of bodies and of the routes
// file: it is strict, and says where a text is wrong.
package wire
