package main_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// room says what the code of one folder, without those below it, may import,
// tests left out. The standard library is free but for what is kept out.
type room struct {
	folder  string
	why     string   // what the limits are good for
	ours    []string // folders of this module
	modules []string // others' modules, or packages of them
	keepOut []string // packages of the standard library, with those below them
	noClock bool     // the current time is an argument
}

const (
	jsonModule = "github.com/go-json-experiment/json"
	prometheus = "github.com/prometheus/client_golang/prometheus"
	zerolog    = "github.com/rs/zerolog"
	nats       = "github.com/nats-io/nats.go"
	bbolt      = "go.etcd.io/bbolt"

	attributes   = "go.opentelemetry.io/otel/attribute"
	conventions  = "go.opentelemetry.io/otel/semconv"
	stripeModule = "github.com/stripe/stripe-go/v85"
)

func rooms() []room {
	return []room{
		{
			folder:  "domain",
			why:     "the business is pure: time, ids and randomness come with the command, so that the same events always give the same state",
			modules: []string{"github.com/cockroachdb/apd/v3", "github.com/oklog/ulid/v2"},
			keepOut: []string{
				"context", "crypto/rand", "database", "encoding/json", "io/fs", "log", "math/rand", "net", "os", "runtime",
				"syscall", "testing", "unsafe",
			},
			noClock: true,
		},
		{
			folder: "domain/installation",
			why:    "the aggregate Installation: as pure as domain, which needs nothing of it",
			ours:   []string{"domain"},
			keepOut: []string{
				"context", "crypto/rand", "database", "encoding/json", "io/fs", "log", "math/rand", "net", "os", "runtime",
				"syscall", "testing", "unsafe",
			},
			noClock: true,
		},
		{
			folder: "domain/deliveries",
			why:    "the order of notifications and the event that records them: as pure as domain, which needs nothing of it",
			ours:   []string{"domain"},
			keepOut: []string{
				"context", "crypto/rand", "database", "encoding/json", "io/fs", "log", "math/rand", "net", "os", "runtime",
				"syscall", "testing", "unsafe",
			},
			noClock: true,
		},
		{
			folder: "domain/projects",
			why:    "the aggregate Project: as pure as domain, which needs nothing of it",
			ours:   []string{"domain"},
			keepOut: []string{
				"context", "crypto/rand", "database", "encoding/json", "io/fs", "log", "math/rand", "net", "os", "runtime",
				"syscall", "testing", "unsafe",
			},
			noClock: true,
		},
		{
			folder: "domain/settlement",
			why:    "the rules of settlement reports: as pure as domain, which needs nothing of it",
			ours:   []string{"domain"},
			keepOut: []string{
				"context", "crypto/rand", "database", "encoding/json", "io/fs", "log", "math/rand", "net", "os", "runtime",
				"syscall", "testing", "unsafe",
			},
			noClock: true,
		},
		{
			folder:  "eventstore",
			why:     "the log knows events and their bytes; who reads them is no matter of its own",
			ours:    []string{"domain", "domain/deliveries", "domain/installation", "domain/projects", "domain/settlement"},
			modules: []string{jsonModule},
			keepOut: []string{"encoding/json", "net"},
			noClock: true,
		},
		{
			folder:  "eventstore/audit",
			why:     "the checker trusts no store and no projection: it gets the records and the checkpoints, and knows the rules of the domain",
			ours:    []string{"domain", "domain/deliveries", "domain/installation", "domain/projects", "domain/settlement", "eventstore", "eventstore/translog", "eventstore/values"},
			modules: []string{"golang.org/x/mod/sumdb", jsonModule},
			keepOut: []string{"encoding/json", "net", "os"},
			noClock: true,
		},
		{
			folder:  "eventstore/bolt",
			why:     "the only place that knows how the log lies in a file",
			ours:    []string{"domain", "eventstore", "eventstore/bolt/claims", "eventstore/bolt/record", "eventstore/boltfile"},
			modules: []string{bbolt, "golang.org/x/sys/unix"},
			keepOut: []string{"encoding/json", "net"},
		},
		{
			folder:  "eventstore/bolt/claims",
			why:     "an index of keys and positions, which can be deleted and rebuilt: it knows no records and no events",
			ours:    []string{"eventstore/boltfile"},
			modules: []string{"golang.org/x/sys/unix"},
			keepOut: []string{"encoding/json", "net"},
		},
		{
			folder:  "eventstore/bolt/record",
			why:     "the bytes of a record, which prove themselves: it knows no file",
			ours:    []string{"domain", "eventstore"},
			modules: []string{"github.com/klauspost/compress/s2"},
			keepOut: []string{"encoding/json", "io", "net", "os"},
			noClock: true,
		},
		{
			folder:  "eventstore/boltfile",
			why:     "the one door to every bbolt file: it knows pages and locks, and nothing of what is kept in them",
			modules: []string{bbolt, "golang.org/x/sys/unix"},
			keepOut: []string{"encoding/json", "net"},
		},
		{
			folder: "eventstore/tracing",
			why:    "spans as whoever makes them needs them; where they are exported to is no matter of its own",
			ours:   []string{"domain"},
			modules: []string{
				attributes, conventions, "go.opentelemetry.io/otel/codes", "go.opentelemetry.io/otel/propagation", "go.opentelemetry.io/otel/trace",
			},
			keepOut: []string{"encoding/json", "net", "os"},
		},
		{
			folder:  "eventstore/memory",
			why:     "a store for tests must not need what the real one needs",
			ours:    []string{"domain", "eventstore"},
			keepOut: []string{"encoding/json", "net", "os"},
		},
		{
			folder:  "eventstore/storetest",
			why:     "every store passes it, so it knows none",
			ours:    []string{"domain", "eventstore"},
			modules: []string{"github.com/google/go-cmp/cmp", "pgregory.net/rapid"},
			keepOut: []string{"encoding/json", "net"},
		},
		{
			folder:  "eventstore/replog",
			why:     "the log on three nodes: who uses a store does not know that there is a cluster, and it knows only the store in a file",
			ours:    []string{"eventstore", "eventstore/bolt", "eventstore/bolt/record"},
			modules: []string{nats, jsonModule},
			keepOut: []string{"encoding/json", "os"},
		},
		{
			folder:  "eventstore/translog",
			why:     "a program that checks the log needs only this, so that the check can be read and trusted by itself",
			ours:    []string{"domain", "eventstore"},
			modules: []string{"golang.org/x/mod/sumdb", "github.com/transparency-dev/formats/note", "github.com/transparency-dev/formats/proof"},
			keepOut: []string{"encoding/json", "net", "os"},
			noClock: true,
		},
		{
			folder:  "eventstore/values",
			why:     "the binary form of any value: which values there are, and what keeps them, is no matter of its own",
			keepOut: []string{"encoding/json", "io", "net", "os"},
			noClock: true,
		},
		{
			folder: "projections",
			why:    "it follows the log and keeps the views current; what a view holds is the view's own matter",
			ours: []string{
				"domain", "eventstore", "eventstore/boltfile", "eventstore/translog", "projections/books", "projections/table", "projections/views",
			},
			modules: []string{jsonModule, bbolt},
			keepOut: []string{"crypto/rand", "encoding/json", "math/rand", "net"},
			noClock: true,
		},
		{
			folder:  "projections/table",
			why:     "an ordered table in memory over a file; it knows neither events nor what its rows mean",
			ours:    []string{"eventstore/boltfile", "eventstore/values"},
			modules: []string{bbolt, "github.com/tidwall/btree"},
			keepOut: []string{"crypto/rand", "encoding/json", "math/rand", "net", "os"},
			noClock: true,
		},
		{
			folder: "projections/views",
			why:    "a view is a fold of the log: no clock, no network, no commands, so that a rebuilt one is the same",
			ours:   []string{"domain", "domain/deliveries", "domain/installation", "domain/projects", "domain/settlement", "eventstore", "eventstore/translog", "eventstore/values", "projections/table"},
			modules: []string{
				bbolt, "github.com/rivo/uniseg", "golang.org/x/mod/sumdb/tlog", "golang.org/x/text/cases", "golang.org/x/text/unicode/norm",
			},
			keepOut: []string{"crypto/rand", "encoding/json", "math/rand", "net", "os"},
			noClock: true,
		},
		{
			folder:  "projections/books",
			why:     "double entry is a fold of the log like any view, and needs none of the others",
			ours:    []string{"domain", "domain/settlement", "eventstore", "eventstore/values", "projections/table"},
			modules: []string{bbolt},
			keepOut: []string{"crypto/rand", "encoding/json", "math/rand", "net", "os"},
			noClock: true,
		},
		{
			folder:  "projections/check",
			why:     "it folds the log again by the same code, and trusts nothing else",
			ours:    []string{"domain", "domain/projects", "eventstore", "projections", "projections/table", "projections/views"},
			modules: []string{bbolt},
			keepOut: []string{"crypto/rand", "encoding/json", "math/rand", "net"},
			noClock: true,
		},
		{
			folder:  "projections/projectiontest",
			why:     "only tests of projections import it: a log that random commands grow, and the states it leads to",
			ours:    []string{"domain", "domain/deliveries", "domain/projects", "domain/settlement", "eventstore", "eventstore/memory"},
			keepOut: []string{"encoding/json", "net"},
		},
		{
			folder:  "notifier",
			why:     "the relay of the log and the watchdog over all parts that run on NATS: what another part does is its own room's",
			ours:    []string{"domain", "eventstore", "notifier/bus", "notifier/bus/embedded", "notifier/health", "notifier/signals"},
			modules: []string{nats, prometheus, zerolog, "golang.org/x/sync/errgroup"},
			keepOut: []string{"encoding/json", "net"},
		},
		{
			folder:  "notifier/bus",
			why:     "NATS, its subjects and the form of its messages, and who reads them with credentials of their own; what is done about a message is no matter of its own",
			ours:    []string{"domain", "domain/installation", "eventstore", "notifier/health"},
			modules: []string{jsonModule, nats, prometheus, zerolog, "golang.org/x/crypto/bcrypt", "golang.org/x/sync/errgroup"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "notifier/bus/embedded",
			why:     "the NATS server of this process and its directory; what is sent over it is the bus's",
			ours:    []string{"domain/installation", "notifier/bus", "notifier/health"},
			modules: []string{"github.com/nats-io/nats-server/v2", prometheus, zerolog},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "notifier/worker",
			why:     "it changes state by commands alone, and what waits for it are views, whose interfaces it declares",
			ours:    []string{"domain", "domain/settlement", "eventstore", "notifier/health"},
			modules: []string{prometheus, zerolog, "golang.org/x/sync/errgroup"},
			keepOut: []string{"encoding/json", "net"},
		},
		{
			folder:  "notifier/signals",
			why:     "providers' outcomes change state by commands alone; who sent them and why is no matter of its own",
			ours:    []string{"domain", "eventstore", "notifier/bus", "notifier/health"},
			modules: []string{jsonModule, nats, prometheus, zerolog, "golang.org/x/sync/errgroup"},
			keepOut: []string{"encoding/json", "net"},
		},
		{
			folder:  "notifier/health",
			why:     "how a part says that it works, and how long it waits before it tries again; it knows no part",
			ours:    []string{"eventstore"},
			modules: []string{prometheus, zerolog},
			keepOut: []string{"encoding/json", "net"},
		},
		{
			folder:  "notifier/collect",
			why:     "it brings what is open at providers to its end, by commands and signals; the views it needs are an interface it declares, and providers are behind connector",
			ours:    []string{"domain", "eventstore", "eventstore/tracing", "notifier/bus", "notifier/connector", "notifier/health"},
			modules: []string{jsonModule, prometheus, zerolog, "github.com/tidwall/btree", "golang.org/x/sync/errgroup", "golang.org/x/time/rate"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "notifier/connector",
			why:     "what a provider's connector is, and how its signals are sent; a connector can do no more than a program outside",
			ours:    []string{"domain", "domain/settlement", "notifier/bus"},
			modules: []string{jsonModule, nats},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "notifier/connector/stripe",
			why:     "one provider: how Stripe's answers are read; what becomes of a payment is no matter of its own",
			ours:    []string{"domain", "notifier/connector"},
			modules: []string{jsonModule, stripeModule},
			keepOut: []string{"encoding/json", "os"},
		},
		{
			folder:  "notifier/connector/stripe/stripetest",
			why:     "only tests import it: it plays Stripe with a state of its own",
			ours:    []string{"domain", "notifier/connector", "notifier/connector/client", "notifier/connector/connectortest", "notifier/connector/stripe"},
			modules: []string{jsonModule, stripeModule},
			keepOut: []string{"encoding/json", "os"},
		},
		{
			folder:  "notifier/connector/client",
			why:     "how connectors and webhooks call out and sign: the limits are the same for all, and none of them chooses where its calls may go",
			modules: []string{"code.dny.dev/ssrf", "github.com/standard-webhooks/standard-webhooks/libraries"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "notifier/connector/connectortest",
			why:     "every connector passes it, so it knows none",
			ours:    []string{"domain", "notifier/connector"},
			modules: []string{"github.com/google/go-cmp/cmp"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "notifier/connector/adapter",
			why:     "calls to one adapter, over HTTP or NATS: it knows the connector's promises and nothing of the ledger",
			ours:    []string{"domain", "notifier/bus", "notifier/connector", "notifier/connector/client"},
			modules: []string{jsonModule, nats},
			keepOut: []string{"encoding/json", "os"},
			noClock: true,
		},
		{
			folder:  "notifier/connector/adapter/check",
			why:     "it judges adapters from outside, with the signatures and the answers that a route would take",
			ours:    []string{"domain", "notifier/connector", "notifier/connector/adapter", "notifier/connector/client"},
			keepOut: []string{"encoding/json", "os"},
			noClock: true,
		},
		{
			folder:  "notifier/connector/adapter/adaptertest/reference",
			why:     "an adapter as a stranger would write it: it has nothing of ours, and may be copied",
			modules: []string{"github.com/standard-webhooks/standard-webhooks/libraries"},
		},
		{
			folder: "notifier/connector/adapter/adaptertest",
			why:    "only tests import it: the reference adapter with faults",
			ours: []string{
				"domain", "notifier/connector", "notifier/connector/adapter", "notifier/connector/adapter/adaptertest/reference",
				"notifier/connector/client", "notifier/connector/connectortest",
			},
			modules: []string{jsonModule},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "notifier/connector/yookassa",
			why:     "YooKassa alone: a connector reads and asks, and everything else is decided elsewhere",
			ours:    []string{"domain", "notifier/connector"},
			modules: []string{jsonModule},
			keepOut: []string{"encoding/json", "os"},
		},
		{
			folder:  "notifier/connector/yookassa/yookassatest",
			why:     "only tests import it: YooKassa as the connector sees it",
			ours:    []string{"domain", "notifier/connector", "notifier/connector/connectortest", "notifier/connector/yookassa"},
			modules: []string{jsonModule},
			keepOut: []string{"encoding/json", "os"},
		},
		{
			folder:  "notifier/health/healthtest",
			why:     "only tests import it: how they wait, and for how long",
			ours:    []string{"notifier/health"},
			modules: []string{prometheus, zerolog, "go.uber.org/goleak"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "notifier/bustest",
			why:     "only tests import it: a ledger in memory, an embedded NATS server and certificates",
			ours:    []string{"domain", "domain/projects", "eventstore", "eventstore/memory", "notifier/bus", "notifier/bus/embedded", "notifier/health", "notifier/health/healthtest"},
			modules: []string{nats, "github.com/nats-io/nats-server/v2"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "notifier/notifiertest",
			why:     "only tests import it: the parts with short pauses",
			ours:    []string{"domain", "notifier/bus", "notifier/bustest", "notifier/health/healthtest", "notifier/signals", "notifier/worker"},
			modules: []string{prometheus, zerolog},
			keepOut: []string{"encoding/json", "net"},
		},
		{
			folder:  "notifier/delivery",
			why:     "it decides when and in which order merchants are notified; it changes state by commands alone, and the views it needs are interfaces it declares",
			ours:    []string{"domain", "domain/deliveries", "domain/projects", "eventstore", "eventstore/tracing", "notifier/health", "notifier/webhook"},
			modules: []string{attributes, conventions, prometheus, zerolog, "golang.org/x/time/rate"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "notifier/webhook",
			why:     "one request to a merchant's server, and nothing about which or when: it reads no log and keeps no state",
			ours:    []string{"domain", "domain/projects", "notifier/connector/client"},
			modules: []string{jsonModule, "code.dny.dev/ssrf", "github.com/standard-webhooks/standard-webhooks/libraries"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "httpapi",
			why:     "the one table of routes: it knows each room's door; what the rooms need of NATS is an interface they declare",
			ours:    []string{"domain", "domain/projects", "eventstore", "httpapi/account", "httpapi/checkout", "httpapi/conns", "httpapi/docs", "httpapi/edge", "httpapi/merchant", "httpapi/peer", "httpapi/webhooks", "httpapi/wire"},
			modules: []string{jsonModule, prometheus, zerolog, "github.com/gorilla/mux"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "httpapi/edge",
			why:     "a request in, an answer out: it knows no payment, no log and no view, so that every listener can stand on it",
			ours:    []string{"domain", "domain/projects", "eventstore/tracing", "httpapi/conns", "httpapi/wire"},
			modules: []string{attributes, conventions, jsonModule, prometheus, zerolog, "github.com/gorilla/mux", "golang.org/x/text/unicode/norm", "golang.org/x/time/rate"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "httpapi/wire",
			why:     "the JSON shapes as both sides use them, the server and its clients, so it knows neither, and the one reader of JSON that people write",
			ours:    []string{"domain", "domain/projects", "domain/settlement"},
			modules: []string{jsonModule},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "httpapi/peer",
			why:     "requests on their way from node to node: it knows neither what they ask for nor how the log is kept",
			keepOut: []string{"encoding/json", "os"},
		},
		{
			folder: "httpapi/merchant",
			why:    "what merchants can have done: it works while NATS is away, and what it needs of it is an interface it declares",
			ours: []string{
				"domain", "domain/projects", "domain/settlement", "eventstore", "eventstore/tracing", "eventstore/translog", "projections", "projections/books", "projections/check", "projections/views", "httpapi/checkout", "httpapi/conns", "httpapi/edge", "httpapi/peer", "httpapi/wire",
			},
			modules: []string{jsonModule, prometheus, zerolog},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "httpapi/webhooks",
			why:     "endpoints and deliveries as merchants ask for them: callers are admitted and payments found by merchant, and sending is an interface",
			ours:    []string{"domain", "domain/projects", "eventstore", "httpapi/edge", "httpapi/merchant", "httpapi/wire"},
			modules: []string{jsonModule},
			keepOut: []string{"encoding/json"},
		},
		{
			folder: "httpapi/admin",
			why:    "the operator's socket: what it shares with merchants it has the merchants' operations do",
			ours: []string{
				"domain", "domain/installation", "domain/projects", "domain/settlement", "eventstore", "eventstore/audit", "eventstore/translog", "projections", "projections/books", "projections/check", "projections/views", "httpapi/edge", "httpapi/merchant", "httpapi/peer", "httpapi/webhooks", "httpapi/wire",
			},
			modules: []string{jsonModule, prometheus, zerolog},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "httpapi/docs",
			why:     "pages that are made once: what they say of the program they are given",
			ours:    []string{"domain", "domain/projects", "httpapi/edge", "httpapi/ui", "httpapi/wire"},
			modules: []string{"github.com/swaggest/swgui"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "httpapi/conns",
			why:     "connections and addresses of clients; what is asked for over them is no matter of its own",
			modules: []string{prometheus, zerolog, "golang.org/x/sys/unix"},
		},
		{
			folder: "httpapi/ui",
			why:    "words, looks and headers of the pages; what a page shows is no matter of its own",
			ours:   []string{"domain", "httpapi/edge"},
			modules: []string{
				"github.com/BurntSushi/toml", "github.com/boombuler/barcode/qr", "github.com/nicksnyder/go-i18n/v2/i18n", "golang.org/x/text",
			},
		},
		{
			folder: "httpapi/ui/uitest",
			why:    "only tests of pages import it",
			modules: []string{
				"github.com/BurntSushi/toml", "github.com/chromedp", "github.com/makiuchi-d/gozxing", "golang.org/x/text/language",
			},
		},
		{
			folder:  "httpapi/checkout",
			why:     "the customer's page is reached without a key, so it gets at nothing but what it is handed",
			ours:    []string{"domain", "domain/projects", "eventstore", "httpapi/conns", "httpapi/edge", "httpapi/peer", "httpapi/ui", "httpapi/wire"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "httpapi/account",
			why:     "the merchant's pages: what they show and change goes through the merchants' operations, so it can do what its key may do and gets at nothing else",
			ours:    []string{"domain", "domain/projects", "httpapi/conns", "httpapi/edge", "httpapi/merchant", "httpapi/peer", "httpapi/ui", "httpapi/webhooks", "httpapi/wire"},
			modules: []string{jsonModule, "github.com/gorilla/securecookie"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder: "cmd/doctest",
			why:    "only tests of documents import it",
		},
		{
			folder: "cmd/freeports",
			why:    "it knows ports alone",
		},
		{
			folder:  "cmd/payledger-bench",
			why:     "it measures the program from outside, as a process of its own; of its inside it knows only what writing a long log takes",
			ours:    []string{"cmd/freeports", "cmd/payledger-bench/baseline", "domain", "eventstore", "eventstore/bolt"},
			modules: []string{jsonModule, "github.com/alecthomas/kong", "golang.org/x/sync/errgroup", "golang.org/x/sys/unix"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder: "cmd/payledger-bench/baseline",
			why:    "what the program is held against shares nothing with it but the form of an id",
			ours:   []string{"domain"},
			modules: []string{
				bbolt, jsonModule, nats, "github.com/nats-io/nats-server/v2", "github.com/gorilla/mux", "github.com/jackc/pgx/v5",
			},
			keepOut: []string{"encoding/json"},
		},
		{
			folder: "cmd/payledger/cli",
			why:    "what every command has at hand, and what describes all of them from kong's model; directories, servers and what commands do are no matter of its own",
			ours: []string{
				"domain", "eventstore", "httpapi/admin", "httpapi/wire", "notifier/bus",
			},
			modules: []string{jsonModule, nats, zerolog, "github.com/alecthomas/kong", "github.com/schollz/progressbar/v3"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder: "cmd/payledger/admincmd",
			why:    "commands that do nothing but ask the admin interface, whether a server runs or not",
			ours: []string{
				"cmd/payledger/cli", "cmd/payledger/datadir", "cmd/payledger/service", "domain", "domain/installation", "domain/projects", "domain/settlement", "httpapi/edge", "httpapi/wire",
				"notifier/health",
			},
			modules: []string{jsonModule, "github.com/alecthomas/kong"},
			keepOut: []string{"encoding/json", "os"},
		},
		{
			folder:  "cmd/payledger/datadir",
			why:     "files and their names, so that whatever repairs a directory needs nothing that runs on it",
			ours:    []string{"cmd/payledger/cli", "domain", "domain/installation", "eventstore", "eventstore/audit", "eventstore/bolt", "eventstore/boltfile", "eventstore/translog"},
			modules: []string{jsonModule, "golang.org/x/sys/unix"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder: "cmd/payledger/clusternode",
			why:    "how directories become nodes of a cluster, a node's server, log and port, and the processes of a demo; what is done with the log is the service's",
			ours: []string{
				"cmd/freeports", "cmd/payledger/cli", "cmd/payledger/datadir", "domain", "eventstore", "eventstore/bolt", "eventstore/replog", "httpapi/peer",
				"notifier/bus", "notifier/bus/embedded", "notifier/health",
			},
			modules: []string{jsonModule, zerolog, "golang.org/x/sync/errgroup"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder: "cmd/payledger/export",
			why:    "an auditor's files come from the log by the admin interface, whether a server runs or not",
			ours: []string{
				"cmd/payledger/cli", "cmd/payledger/datadir", "domain", "domain/settlement", "eventstore", "eventstore/audit", "eventstore/translog", "httpapi/edge",
				"httpapi/wire",
			},
			modules: []string{jsonModule},
			keepOut: []string{"encoding/json"},
		},
		{
			folder: "cmd/payledger/export/exporttest",
			why:    "only tests of exports import it",
		},
		{
			folder: "cmd/payledger/restore",
			why:    "it works where no server of payledger's can start; a NATS server alone runs, on a copy of JetStream's files, to read EVENTS",
			ours: []string{
				"cmd/payledger/cli", "cmd/payledger/datadir", "cmd/payledger/export", "domain", "domain/installation", "eventstore", "eventstore/audit",
				"eventstore/bolt", "eventstore/boltfile", "eventstore/translog", "notifier/bus", "notifier/bus/embedded",
			},
			modules: []string{zerolog, "golang.org/x/mod/sumdb/tlog", "golang.org/x/sys/unix"},
			keepOut: []string{"encoding/json", "net"},
		},
		{
			folder:  "cmd/payledger/reports",
			why:     "the reading of providers' reports is pure, but for the file of a profile: the report and the time are handed to it, and what is booked is no matter of its own",
			ours:    []string{"domain", "domain/settlement"},
			modules: []string{jsonModule, "golang.org/x/text/encoding/charmap"},
			keepOut: []string{"context", "encoding/json", "log", "net"},
			noClock: true,
		},
		{
			folder: "cmd/payledger/routesfile",
			why:    "the routes file with its secrets is read the same by the server and by the command that checks it; the types of connectors are handed to it",
			ours: []string{
				"domain", "domain/settlement", "httpapi/wire", "notifier/connector", "notifier/connector/adapter", "notifier/connector/client",
				"notifier/connector/stripe", "notifier/connector/yookassa",
			},
			modules: []string{jsonModule},
			keepOut: []string{"encoding/json", "net"},
		},
		{
			folder: "cmd/payledger/process",
			why:    "the process as a whole, with the limits of all its HTTP servers and the export of its spans: what runs in it and is served is no matter of its own",
			ours:   []string{"cmd/payledger/cli", "eventstore/tracing", "httpapi/conns", "notifier/webhook"},
			modules: []string{
				prometheus, zerolog, "github.com/KimMachineGun/automemlimit/memlimit", "golang.org/x/sys/unix",
				"github.com/go-logr/logr", "go.opentelemetry.io/otel", "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp",
				"go.opentelemetry.io/otel/sdk/resource", "go.opentelemetry.io/otel/sdk/trace", conventions,
			},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "cmd/payledger/receive",
			why:     "a merchant's side: it verifies with the public library and knows nothing of the sender",
			modules: []string{jsonModule, "github.com/standard-webhooks/standard-webhooks/libraries"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder: "cmd/payledger/checkpoints",
			why:    "what is signed for a log and whether the log is what was signed for; who may ask for it is the service's",
			ours: []string{
				"cmd/payledger/cli", "cmd/payledger/clusternode", "cmd/payledger/datadir", "eventstore", "eventstore/bolt", "eventstore/replog",
				"eventstore/translog", "httpapi/merchant", "httpapi/peer", "notifier/health", "projections", "projections/views",
			},
			modules: []string{jsonModule, prometheus, zerolog, "golang.org/x/mod/sumdb/tlog"},
			keepOut: []string{"encoding/json"},
		},
		{
			folder:  "cmd/payledger/service",
			why:     "the composition root is the one place that knows every package",
			ours:    []string{"."},
			modules: []string{"."},
		},
		{
			folder:  "cmd/payledger",
			why:     "a command is flags, help and print-outs; what it does is in a room",
			ours:    []string{"."},
			modules: []string{"."},
		},
	}
}

const module = "payledger"

// TestImports keeps each folder to its row. A new folder needs a row, a new
// dependency an entry: that is the moment to ask whether it belongs there.
func TestImports(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	for _, b := range breaches(t, root) {
		t.Error(b)
	}
	for _, r := range rooms() {
		files, err := fs.Glob(root, path.Join(r.folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has a row and no Go files (%v)", r.folder, err)
		}
	}
}

// TestImportRulesBite breaks every rule on purpose.
func TestImportRulesBite(t *testing.T) {
	t.Parallel()
	source := func(imports ...string) *fstest.MapFile {
		var b strings.Builder
		b.WriteString("package p\n")
		for _, i := range imports {
			fmt.Fprintf(&b, "import _ %q\n", i)
		}
		return &fstest.MapFile{Data: []byte(b.String())}
	}
	tree := fstest.MapFS{
		"domain/good.go":        source("time", "network", "github.com/oklog/ulid/v2"),
		"domain/good_test.go":   source("net/http", "payledger/httpapi", "golang.org/x/text/currency"),
		"domain/net.go":         source("net/http"),
		"domain/rand.go":        source("math/rand/v2"),
		"domain/upward.go":      source("payledger/eventstore"),
		"domain/module.go":      source("go.etcd.io/bbolt"),
		"eventstore/a.go":       source("payledger/domain", "go.etcd.io/bbolt"),
		"eventstore/bolt/a.go":  source("payledger/eventstore", "go.etcd.io/bbolt/errors"),
		"eventstore/newer/a.go": source("payledger/projections"),
		"projections/a.go":      source("payledger/notifier"),
		"notifier/a.go":         source("payledger/projections", "payledger/httpapi"),
		"httpapi/a.go":          source("payledger/notifier", "github.com/nats-io/nats.go/jetstream", "github.com/gorilla/muxer"),
		"cmd/payledger/a.go":    source("payledger/notifier", "example.com/anything"),
		"helpers/a.go":          source(),
		"cmd/a.go":              source(),
		"domain/clock.go": {Data: []byte(`package p
import clock "time"
var f = clock.Now
func g() { clock.Sleep(0); _ = clock.Unix(0, 0); _ = clock.Since(f()) }
`)},
		"domain/noclock.go": {Data: []byte("package p\ntype t struct{}\nfunc (t) Now() {}\nvar time t\nfunc f() { time.Now() }\n")},
		"httpapi/clock.go":  {Data: []byte("package p\nimport \"time\"\nvar f = time.Now\n")},
		"eventstore/all.go": {Data: []byte("package p\nimport . \"time\"\nvar f = Now\n")},
	}
	var got []string
	for _, b := range breaches(t, tree) {
		got = append(got, strings.SplitN(b, ": ", 3)[0]+": "+strings.SplitN(b, ": ", 3)[1])
	}
	want := []string{
		"cmd/a.go: has no row in rooms",
		"domain/clock.go: uses time.Now",
		"domain/clock.go: uses time.Since",
		"domain/clock.go: uses time.Sleep",
		"domain/module.go: imports go.etcd.io/bbolt",
		"domain/net.go: imports net/http",
		"domain/rand.go: imports math/rand/v2",
		"domain/upward.go: imports payledger/eventstore",
		"eventstore/a.go: imports go.etcd.io/bbolt",
		"eventstore/all.go: imports time without its name",
		"eventstore/newer/a.go: has no row in rooms",
		"helpers/a.go: has no row in rooms",
		"httpapi/a.go: imports github.com/gorilla/muxer",
		"httpapi/a.go: imports github.com/nats-io/nats.go/jetstream",
		"httpapi/a.go: imports payledger/notifier",
		"notifier/a.go: imports payledger/httpapi",
		"notifier/a.go: imports payledger/projections",
		"projections/a.go: imports payledger/notifier",
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("breaches (-want +got):\n%s", diff)
	}
}

// breaches reads every Go file that is no test and lists what breaks a rule,
// each as "file: what: why".
func breaches(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var found []string
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		r, ok := roomOf(path.Dir(name))
		if !ok {
			found = append(found, name+": has no row in rooms: say there what it may import, and why")
			return nil
		}
		for _, what := range slices.Concat(r.imports(file), r.clocks(file)) {
			found = append(found, name+": "+what+": "+r.why)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func roomOf(folder string) (room, bool) {
	for _, r := range rooms() {
		if r.folder == folder {
			return r, true
		}
	}
	return room{}, false
}

func (r room) imports(file *ast.File) []string {
	var found []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err) // the parser let it through
		}
		if !r.allows(imported) {
			found = append(found, "imports "+imported)
		}
	}
	return found
}

func (r room) allows(imported string) bool {
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		return slices.Contains(r.ours, ".") || slices.Contains(r.ours, ours)
	}
	first, _, _ := strings.Cut(imported, "/")
	if strings.Contains(first, ".") {
		return slices.ContainsFunc(r.modules, func(m string) bool { return m == "." || below(imported, m) })
	}
	return !slices.ContainsFunc(r.keepOut, func(p string) bool { return below(imported, p) })
}

// clocks lists what in the file tells the time or waits for it, where the
// room has no clock.
func (r room) clocks(file *ast.File) []string {
	if !r.noClock {
		return nil
	}
	name := ""
	for _, spec := range file.Imports {
		if spec.Path.Value != `"time"` {
			continue
		}
		name = "time"
		if spec.Name != nil {
			name = spec.Name.Name
		}
	}
	if name == "." {
		return []string{"imports time without its name"}
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := s.X.(*ast.Ident)
		if ok && name != "" && x.Name == name && slices.Contains([]string{"Now", "Since", "Until", "Sleep"}, s.Sel.Name) {
			found = append(found, "uses time."+s.Sel.Name)
		}
		return true
	})
	return found
}

// below reports whether a path is dir or lies in it.
func below(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, dir+"/")
}
