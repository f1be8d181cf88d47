package adapter

import (
	"context"
	"fmt"
	"net/http"

	"github.com/nats-io/nats.go"

	"payledger/notifier/bus"
	"payledger/notifier/connector"
)

// natsSettings is the connector's object in the routes file.
type natsSettings struct {
	HandOver bool `json:"hand_over"`
}

// NATS is the type of a route whose program speaks to payledger over NATS and publishes
// signals there; see notifier/README.md.
//
// Without settings that is all: payledger asks the program nothing, and there are
// no attempts. With "hand_over": true payledger makes the calls as requests on
// payledger.v1.connectors.{route}.{call}, and the program answers them. What it
// signals is judged in either case.
//
// Nothing is signed: NATS lets only the users connector and payledger near these
// subjects. All programs that connect as connector are trusted alike, so each sees
// the calls of all routes. Requests and answers are at most what the server takes
// as one message, which is 1 MiB unless it is set lower.
func NATS() connector.Type {
	return connector.Type{Name: "nats", Open: openNATS, Sample: `{"hand_over":true}`}
}

// openNATS answers nil without hand-over: there is nothing to ask then.
func openNATS(e connector.Env, route string, object []byte) (connector.Connector, error) {
	var s natsSettings
	if err := connector.DecodeSettings(object, &s); err != nil {
		return nil, err
	}
	if !s.HandOver {
		return nil, nil //nolint:nilnil // as connector.Type.Open has it
	}
	r := &natsRoute{nc: e.NATS, route: route}
	r.Connector = Connector{Transport: r.exchange}
	return r, nil
}

type natsRoute struct {
	Connector
	nc    *nats.Conn
	route string
}

// exchange is the Transport. NATS brings only the answer to this request.
// While no program listens, the error comes at once.
func (r *natsRoute) exchange(ctx context.Context, call Call, body []byte) ([]byte, error) {
	m, err := r.nc.RequestWithContext(ctx, bus.CallSubject(r.route, string(call)), body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking the connector over NATS: %w", err)
	case len(m.Data) > connector.MaxAnswer:
		return nil, fmt.Errorf("the connector's answer has more than %d bytes", connector.MaxAnswer)
	}
	return m.Data, nil
}

// Notices refuses what comes over HTTP: the program sends signals.
func (*natsRoute) Notices(context.Context, http.Header, []byte) ([]connector.Notice, error) {
	return nil, connector.ErrForged
}
