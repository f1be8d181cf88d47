package baseline

import "payledger/domain"

// The bodies have the form and size of the service's.

const fields = `"amount":"1500.00","currency":"RUB","description":"order-1042","payload":{"cart":7,"customer":"c-8841"}`

// created is the event of a new payment.
func created(id, event domain.ID, base string) []byte {
	at := domain.IDTime(event).String()
	b := make([]byte, 0, 800)
	b = append(b, `{"id":"`+event.String()+`","type":"payment.created","version":2,"project":"`+project+
		`","kind":"payment","stream":"`+id.String()+`","sequence":1,"at":"`+at+`","actor":"key_01M7W70000M8T4R7B5N0C1D2E3","data":{"created_at":"`+at+
		`","expires_at":"`+domain.IDTime(event).Add(3600e9).String()+`",`+fields+
		`,"link":{"base":"`+base+`","key_version":1,"render":1},"idempotency":{"key":"`...)
	b = append(b, digest+`","fingerprint":"`+digest+`"},"route":"sandbox"}}`...)
	return b
}

const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// answer is what the creation of a payment is answered with.
func answer(e *entry, base string) []byte {
	return []byte(`{"id":"` + string(e.id[:]) + `","status":"awaiting_payment",` + fields +
		`,"instructions":{"type":"link","url":"` + base + `/p/AQAAAAFmWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWg"},"created_at":"2026-11-20T10:15:30.123Z"}`)
}

// shown is a payment as it is read.
func shown(e *entry) []byte {
	return []byte(`{"id":"` + string(e.id[:]) + `","status":"awaiting_payment",` + fields + `,"created_at":"2026-11-20T10:15:30.123Z"}`)
}
