package connector

import (
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
)

// Type is one kind of connector: a row of routesfile.Types.
type Type struct {
	Name string // the "type" of a connector in the routes file

	// Title is the provider's name as customers know it; "" if they do not.
	Title string

	// Open makes the connector of a route from the object of the routes file,
	// without its member "type". The error is a *SettingError where one setting is
	// wrong. It makes no call to the provider. A nil Connector without an error: the
	// route has no attempts, because a program elsewhere only sends signals.
	Open func(e Env, route string, settings []byte) (Connector, error)

	// Private: it calls the operator's servers, which may be on this machine and in private networks.
	// Others reach only public addresses.
	Private bool

	// Sample is such an object, for the tests that every type must pass.
	Sample string
}

// Env is what connectors are made from.
type Env struct {
	NATS *nats.Conn
	Now  func() time.Time

	// Secret reads a secret from a file or an environment variable, of which one
	// is named. The members of the settings are called NAME_file and NAME_env. The
	// error is a *SettingError that names the member and never holds the secret.
	Secret func(name, file, env string) (string, error)

	// HTTP makes the calls to providers and adapters. It has time limits and follows no redirects;
	// answers are read up to MaxAnswer bytes.
	HTTP *http.Client
}

// MaxAnswer is how much of an answer of a provider or an adapter is read, in
// bytes; a longer one is an error.
const MaxAnswer = 256 << 10

// SettingError is a wrong setting of a connector.
type SettingError struct {
	Field  string // of the connector's object
	Detail string // what is wrong with it, and what is wanted
}

func (e *SettingError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Detail) }
