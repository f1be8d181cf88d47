package eventstore_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/domain/installation"
	"payledger/domain/projects"
	"payledger/domain/settlement"
	"payledger/eventstore"
)

// TestWireNames lists the names that auditors and subscribers use. None may ever
// change; a new event is a new line.
func TestWireNames(t *testing.T) {
	t.Parallel()
	want := map[string]domain.Event{
		"payment.created":         domain.PaymentCreated{},
		"payment.route_assigned":  domain.PaymentRouteAssigned{},
		"payment.paid":            domain.PaymentPaid{},
		"payment.expired":         domain.PaymentExpired{},
		"payment.failed":          domain.PaymentFailed{},
		"payment.signal_refused":  domain.PaymentSignalRefused{},
		"payment.late_funds":      domain.PaymentLateFunds{},
		"refund.created":          domain.RefundCreated{},
		"refund.succeeded":        domain.RefundSucceededEvent{},
		"refund.failed":           domain.RefundFailedEvent{},
		"refund.returned":         domain.RefundReturned{},
		"payment.disputed":        domain.PaymentDisputed{},
		"payment.dispute_won":     domain.PaymentDisputeWon{},
		"payment.dispute_lost":    domain.PaymentDisputeLost{},
		"payment.attempt_begun":   domain.PaymentAttemptBegun{},
		"payment.attempt_offered": domain.PaymentAttemptOffered{},
		"payment.attempt_failed":  domain.PaymentAttemptFailed{},
		"return.created":          domain.ReturnCreated{},
		"return.succeeded":        domain.ReturnSucceeded{},
		"return.failed":           domain.ReturnFailed{},
		"project.registered":      projects.ProjectRegistered{},

		"payment.details_erased":       domain.PaymentDetailsErased{},
		"payment.suspense_settled":     domain.PaymentSuspenseSettled{},
		"payment.refunded_at_provider": domain.PaymentRefundedAtProvider{},

		"project.changed":           projects.ProjectChanged{},
		"project.disabled":          projects.ProjectDisabled{},
		"project.signed_out":        projects.ProjectSignedOut{},
		"key.issued":                projects.KeyIssued{},
		"key.renamed":               projects.KeyRenamed{},
		"key.signed_out":            projects.KeySignedOut{},
		"key.revoked":               projects.KeyRevoked{},
		"webhook_endpoint.added":    projects.WebhookEndpointAdded{},
		"webhook_endpoint.changed":  projects.WebhookEndpointChanged{},
		"webhook_endpoint.disabled": projects.WebhookEndpointDisabled{},
		"webhook_endpoint.enabled":  projects.WebhookEndpointEnabled{},
		"webhook_endpoint.removed":  projects.WebhookEndpointRemoved{},
		"webhook_secret.rotated":    projects.WebhookSecretRotated{},
		"deliveries.noted":          deliveries.Noted{},
		"routes.loaded":             installation.RoutesLoaded{},
		"route.paused":              installation.RoutePaused{},
		"route.resumed":             installation.RouteResumed{},
		"route.settled_since":       installation.RouteSettledSince{},
		"log.restored":              installation.LogRestored{},
		"log_key.renewed":           installation.LogKeyRenewed{},
		"nats_consumer.created":     installation.NATSConsumerCreated{},
		"nats_consumer.reset":       installation.NATSConsumerReset{},
		"nats_consumer.removed":     installation.NATSConsumerRemoved{},
		"parked_signal.retried":     installation.ParkedSignalRetried{},
		"parked_signal.discarded":   installation.ParkedSignalDiscarded{},
		"parked_signals.discarded":  installation.ParkedSignalsDiscarded{},
		"report.opened":             settlement.ReportOpened{},
		"report.closed":             settlement.ReportClosed{},
		"report.lines":              settlement.ReportLines{},
		"report.line_resolved":      settlement.LineResolved{},
		"payout.arrived":            settlement.PayoutArrived{},
		"payout.merchant":           settlement.PayoutToMerchant{},
		"payout.undone":             settlement.PayoutUndone{},
	}
	seen := map[string]bool{}
	for _, e := range eventstore.EventTypes() {
		if seen[e.Name] {
			t.Errorf("%s is registered twice", e.Name)
		}
		seen[e.Name] = true
		if w, ok := want[e.Name]; !ok || reflect.TypeOf(w) != reflect.TypeOf(e.Sample) {
			t.Errorf("%s is the name of %T", e.Name, e.Sample)
		}
		if e.Sample.Type() != e.Name {
			t.Errorf("%s says of itself that it is %s", e.Name, e.Sample.Type())
		}
		if e.Version < 1 {
			t.Errorf("%s has version %d", e.Name, e.Version)
		}
	}
	for name := range want {
		if !seen[name] {
			t.Errorf("%s is not registered", name)
		}
	}
}

// TestEveryEventIsRegistered reads the source: each type with a wire name is
// in the registry, and each wire name is one of the constants.
func TestEveryEventIsRegistered(t *testing.T) {
	t.Parallel()
	registered := map[string]bool{}
	for _, e := range eventstore.EventTypes() {
		registered[reflect.TypeOf(e.Sample).Name()] = true
	}
	var decls []ast.Decl
	for _, folder := range []string{"domain", "domain/deliveries", "domain/installation", "domain/projects", "domain/settlement"} {
		files, err := filepath.Glob("../" + folder + "/*events.go")
		if err != nil || len(files) == 0 {
			t.Fatal(folder, files, err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			decls = append(decls, file.Decls...)
		}
	}
	constants := map[string]int{}
	for _, d := range decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, s := range g.Specs {
				for _, name := range s.(*ast.ValueSpec).Names {
					constants[name.Name] = 0
				}
			}
		}
	}
	for _, d := range decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil || f.Name.Name != "Type" {
			continue
		}
		typ, ok := f.Recv.List[0].Type.(*ast.Ident)
		if !ok {
			t.Errorf("an event is not a value: %v", f.Recv.List[0].Type)
			continue
		}
		if !registered[typ.Name] {
			t.Errorf("%s is not in the registry", typ.Name)
		}
		delete(registered, typ.Name)
		name, ok := f.Body.List[0].(*ast.ReturnStmt).Results[0].(*ast.Ident)
		if !ok {
			t.Errorf("the wire name of %s is not a constant", typ.Name)
			continue
		}
		constants[name.Name]++
	}
	for name := range registered {
		t.Errorf("%s is registered and has its Type in another file", name)
	}
	for name, uses := range constants {
		if uses != 1 {
			t.Errorf("the wire name %s is that of %d events", name, uses)
		}
	}
}

// TestSamplesHaveEveryMemberSet keeps the golden encodings complete.
func TestSamplesHaveEveryMemberSet(t *testing.T) {
	t.Parallel()
	for _, e := range eventstore.EventTypes() {
		for _, path := range unset(reflect.ValueOf(e.Sample)) {
			// Only signals on refunds have a refund id.
			if strings.HasSuffix(path, ".Signal.RefundID") && strings.HasPrefix(e.Name, "payment.") {
				continue
			}
			t.Errorf("the sample of %s has no %s", e.Name, path)
		}
	}
}

// unset lists the members of v, at any depth, that have their zero value.
func unset(v reflect.Value) []string {
	var paths []string
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch {
		case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[domain.Sum](): // which is one text
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case v.IsZero():
			paths = append(paths, path)
		case v.Kind() == reflect.Pointer:
			walk(path, v.Elem())
		case v.Kind() == reflect.Slice:
			if v.Len() == 0 {
				paths = append(paths, path)
			}
			for i := range v.Len() {
				walk(path+"["+strconv.Itoa(i)+"]", v.Index(i))
			}
		}
	}
	walk("", v)
	return paths
}

func TestUnsetFindsWhatIsMissing(t *testing.T) {
	t.Parallel()
	e := domain.PaymentCreated{CreatedAt: 1, ExpiresAt: 1, Amount: 1, Currency: "RUB", Payload: domain.JSON{}, Link: domain.Link{Base: "b"}}
	got := unset(reflect.ValueOf(e))
	want := []string{".Description", ".Payload", ".Link.KeyVersion", ".Link.Render", ".Idempotency", ".Route", ".Details"}
	if !slices.Equal(got, want) {
		t.Errorf("unset members %q, want %q", got, want)
	}
}

// TestDecodingTarget: New returns a new pointer each time, and Value returns the
// event decoded into it.
func TestDecodingTarget(t *testing.T) {
	t.Parallel()
	for _, e := range eventstore.EventTypes() {
		p := e.New()
		if reflect.TypeOf(p) != reflect.PointerTo(reflect.TypeOf(e.Sample)) {
			t.Errorf("%s is decoded into a %T", e.Name, p)
			continue
		}
		reflect.ValueOf(p).Elem().Set(reflect.ValueOf(e.Sample))
		if got := e.Value(p); !reflect.DeepEqual(got, e.Sample) {
			t.Errorf("%s comes out as %+v", e.Name, got)
		}
		if !reflect.ValueOf(e.New()).Elem().IsZero() {
			t.Errorf("%s is decoded over an older one", e.Name)
		}
	}
}

// TestEveryMemberHasAWireName: every recorded member has a json tag.
func TestEveryMemberHasAWireName(t *testing.T) {
	t.Parallel()
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice:
			walk(typ.Elem())
		case reflect.Struct:
			if typ == reflect.TypeFor[domain.Sum]() { // it is one text
				return
			}
			for f := range typ.Fields() {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if name == "" || name != strings.ToLower(name) {
					t.Errorf("%s.%s has the wire name %q", typ, f.Name, name)
				}
				walk(f.Type)
			}
		}
	}
	for _, e := range eventstore.EventTypes() {
		walk(reflect.TypeOf(e.Sample))
	}
}
