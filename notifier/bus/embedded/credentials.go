package embedded

import (
	"encoding/base64"
	"fmt"

	"payledger/notifier/bus"
)

// Credential is a user and a password of the embedded NATS server.
type Credential struct {
	User     string `json:"user"`
	Password string `json:"password"`
}

// Credentials are those with which others may use the embedded NATS server.
//
// The subscriber reads events of payments and the log's checkpoints, asks what payments are for, and
// nothing else: events live on bus.PaymentSubjects and from the
// beginning through the consumer "subscriber" of the JetStream stream EVENTS,
// checkpoints live on payledger.v1.checkpoints. Its inboxes begin with
// _INBOX_subscriber.
//
// The connector publishes signals, and answers the calls that routes with
// hand-over make on payledger.v1.connectors.*.*, and nothing else. Its inboxes
// begin with _INBOX_connector. It does not see events: a connector that has to learn of
// assigned routes connects as the subscriber too.
type Credentials struct {
	Subscriber Credential `json:"subscriber"`
	Connector  Credential `json:"connector"`
}

// NewCredentials makes fresh credentials, with passwords of 256 bits.
func NewCredentials() Credentials {
	return Credentials{
		Subscriber: Credential{User: bus.SubscriberConsumer, Password: bus.NewPassword()},
		Connector:  Credential{User: bus.ConnectorUser, Password: bus.NewPassword()},
	}
}

// Validate checks that the credentials are complete and of the form
// NewCredentials makes, so that an edited file neither opens the server nor
// breaks its configuration.
func (c Credentials) Validate() error {
	for _, u := range []struct {
		want string
		got  Credential
	}{{bus.SubscriberConsumer, c.Subscriber}, {bus.ConnectorUser, c.Connector}} {
		if u.got.User != u.want {
			return fmt.Errorf("NATS credentials: %s.user is %q: want %q", u.want, u.got.User, u.want)
		}
		b, err := base64.RawURLEncoding.DecodeString(u.got.Password)
		if err != nil || len(b) < bus.PasswordBytes {
			return fmt.Errorf("NATS credentials: %s.password is not one that payledger made; delete the file to get new ones", u.want)
		}
	}
	return nil
}
