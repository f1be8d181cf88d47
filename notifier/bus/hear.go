package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"payledger/eventstore"
)

// Event is one event as JetStream brought it: the record of the log at its
// position. Without Event, it is also without Claim and Prev.
type Event struct {
	eventstore.Stored

	Type string // the event's wire name
}

// Hear calls fn for each event of the types that is published until ctx ends, as far as
// the connection stands: one that is lost on the way is not heard of.
func (c *Conn) Hear(ctx context.Context, types []string, fn func(Event)) error {
	subscriptions := make([]*nats.Subscription, 0, len(types))
	defer func() {
		for _, s := range subscriptions {
			_ = s.Unsubscribe() // it fails where the connection is closed
		}
	}()
	for _, typ := range types {
		s, err := c.nc.Subscribe(EventSubject("*", typ), func(m *nats.Msg) {
			if e, ok := eventOf(m.Subject, m.Header, m.Data, 0); ok {
				fn(e)
			}
		})
		if err != nil {
			return fmt.Errorf("subscribing to %s: %w", EventSubject("*", typ), err)
		}
		subscriptions = append(subscriptions, s)
	}
	<-ctx.Done()
	return nil
}
