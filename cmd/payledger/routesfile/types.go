package routesfile

import (
	"payledger/notifier/connector"
	"payledger/notifier/connector/adapter"
	"payledger/notifier/connector/stripe"
	"payledger/notifier/connector/yookassa"
)

// Types are those of the connectors that a routes file can name.
func Types() []connector.Type {
	return []connector.Type{
		adapter.Type(),
		adapter.NATS(),
		stripe.Type(),
		yookassa.Type(),
	}
}
