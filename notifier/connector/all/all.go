// Package all lists the types of connectors that the routes file can name.
package all

import (
	"payledger/notifier/connector"
	"payledger/notifier/connector/adapter"
	"payledger/notifier/connector/natsroute"
	"payledger/notifier/connector/stripe"
	"payledger/notifier/connector/yookassa"
)

// Types are all there are. A new one is a folder beside this one and a row.
func Types() []connector.Type {
	return []connector.Type{
		adapter.Type(),
		natsroute.Type(),
		stripe.Type(),
		yookassa.Type(),
	}
}
