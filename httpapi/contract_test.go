package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/docs"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// contract is the OpenAPI document, read once for the whole run of tests.
var contract = sync.OnceValues(func() (*openapi3.T, routers.Router) {
	for _, media := range []string{"text/html", "text/css", "text/javascript", "image/png", "application/jsonl", "text/event-stream"} {
		openapi3filter.RegisterBodyDecoder(media, func(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
			b, err := io.ReadAll(body)
			return string(b), err
		})
	}
	doc, err := openapi3.NewLoader().LoadFromData(docs.OpenAPI)
	if err != nil {
		panic(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		panic(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		panic(err)
	}
	return doc, router
})

// compiled are the schemas of the document that an answer was checked with: *openapi3.Schema →
// *jsonschema.Schema. The document's library compiles them anew for each answer, which took a third
// of the time of these tests.
var compiled sync.Map

// fits checks JSON with a schema of the document.
func fits(s *openapi3.Schema, text []byte) error {
	known, ok := compiled.Load(s)
	if !ok {
		doc, _ := contract()
		whole := make(map[string]any)
		for _, part := range []any{s, map[string]any{"components": map[string]any{"schemas": doc.Components.Schemas}}} { // which it refers to
			if b, err := json.Marshal(part); err != nil || json.Unmarshal(b, &whole) != nil {
				return fmt.Errorf("a schema of the document is no JSON: %w", err)
			}
		}
		c := jsonschema.NewCompiler()
		c.AssertFormat()
		const at = "https://payledger.example/schema"
		if err := c.AddResource(at, whole); err != nil {
			return err
		}
		schema, err := c.Compile(at)
		if err != nil {
			return err
		}
		known, _ = compiled.LoadOrStore(s, schema)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return known.(*jsonschema.Schema).Validate(v)
}

// schemaOf is the schema of an answer in JSON; nil: the document's library shall look at it.
func schemaOf(op *openapi3.Operation, a *answer) *openapi3.Schema {
	media, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	described := op.Responses.Status(a.Code)
	if described == nil {
		described = op.Responses.Default()
	}
	if err != nil || described == nil || !strings.HasSuffix(media, "json") {
		return nil
	}
	content := described.Value.Content[media]
	if content == nil || content.Schema == nil {
		return nil
	}
	return content.Schema.Value
}

// inexpressible are the faults of fields that a schema cannot find.
var inexpressible = []domain.Code{domain.PayloadTooLarge, domain.CurrencyNotSupported, domain.AmountTooLarge, domain.AmountFormat, domain.AmountPrecision, domain.TargetNotAllowed}

// checkContract compares an exchange with the document in both directions. What the
// server accepts, the document allows; what the server refuses for its fields or
// query, the document forbids, as far as a schema can; and the document describes
// every answer.
func checkContract(t testing.TB, r *http.Request, body []byte, a *answer) {
	t.Helper()
	doc, router := contract()
	problemSchema := doc.Components.Schemas["Problem"].Value
	find := r.Clone(r.Context())
	find.URL = &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	find.Body, find.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	for _, lines := range find.Header { // as they arrive
		for i := range lines {
			lines[i] = strings.TrimSpace(lines[i])
		}
	}
	if tile, ok := strings.CutPrefix(find.URL.Path, merchant.LogPath+"/tile/"); ok { // holds slashes, which OpenAPI cannot say
		find.URL.Path, find.URL.RawPath = merchant.LogPath+"/tile/"+tile, merchant.LogPath+"/tile/"+url.PathEscape(tile)
	}
	if find.Method == http.MethodHead {
		find.Method = http.MethodGet
	}
	if a.Header.Get("X-Request-Id") == "" {
		t.Fatalf("%s %s: no X-Request-Id", r.Method, r.URL.Path)
	}
	found, params, err := router.FindRoute(find)
	if err != nil || strings.HasPrefix(r.URL.Path, "/p/") {
		if r.Method != http.MethodHead && !strings.HasPrefix(r.URL.Path, "/p/") {
			if err := fits(problemSchema, a.Body); err != nil {
				t.Fatalf("%s %s: %v\n%s", r.Method, r.URL.Path, err, a.Body)
			}
		}
		return
	}
	if tile, err := url.PathUnescape(params["tile"]); err == nil && tile != "" {
		params["tile"] = tile
	}
	schema := schemaOf(found.Operation, a)
	options := &openapi3filter.Options{
		IncludeResponseStatus: true, SkipSettingDefaults: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
		ExcludeResponseBody: r.Method == http.MethodHead || found.Operation.OperationID == "getDocsFile" || a.Header.Get("Content-Encoding") != "" || inWords(found.Operation, a),
	}
	if schema != nil && !options.ExcludeResponseBody {
		options.ExcludeResponseBody = true
		if err := fits(schema, a.Body); err != nil {
			t.Fatalf("%s answered %d %s, which the document does not describe: %v", found.Operation.OperationID, a.Code, a.Body, err)
		}
	}
	in := &openapi3filter.RequestValidationInput{Request: find, PathParams: params, Route: found, Options: options}
	invalid := openapi3filter.ValidateRequest(r.Context(), in)
	where := fmt.Sprintf("%s (%s) answered %d %s", found.Operation.OperationID, body, a.Code, a.Body)
	if a.Code < 300 && invalid != nil {
		t.Fatalf("%s to a request the document forbids: %v", where, invalid)
	}
	if invalid == nil && forbidden(a) {
		t.Fatalf("%s to a request the document allows", where)
	}
	err = openapi3filter.ValidateResponse(r.Context(), (&openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.Code, Header: a.Header, Options: options,
	}).SetBodyBytes(a.Body))
	if err != nil {
		t.Fatalf("%s, which the document does not describe: %v", where, err)
	}
}

// TestAnswersAreChecked: a member that is missing, of another type or in another form is found.
func TestAnswersAreChecked(t *testing.T) {
	t.Parallel()
	doc, _ := contract()
	problem := doc.Components.Schemas["Problem"].Value
	full := map[string]any{
		"type": "https://example.com/docs/problems/not_found", "title": "x", "status": 404, "code": "not_found",
		"detail": "y", "request_id": "01M7W78FJBM8T4R7B5N0C1D2E3",
	}
	check := func(name string, v any) error {
		altered := maps.Clone(full)
		if altered[name] = v; v == nil {
			delete(altered, name)
		}
		text, err := json.Marshal(altered)
		if err != nil {
			t.Fatal(err)
		}
		return fits(problem, text)
	}
	if err := check("title", "y"); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{"status": "404", "title": nil, "code": 7, "request_id": "short", "type": "no address"} {
		if check(name, v) == nil {
			t.Errorf("%s = %v is no fault", name, v)
		}
	}
}

// inWords reports whether the answer is not JSON, because Accept asked for another
// type, and the operation's text names that type and the columns of CSV. Next to
// application/json, in content, the type would make generated clients take each
// answer for either.
func inWords(op *openapi3.Operation, a *answer) bool {
	media, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	response := op.Responses.Status(a.Code)
	if err != nil || response == nil || response.Value.Content["application/json"] == nil || media == "application/json" {
		return false
	}
	text, columns := op.Description+*response.Value.Description, ""
	if media == edge.CSVType {
		columns, _, _ = strings.Cut(string(a.Body), "\r\n")
	}
	return strings.Contains(text, media) && strings.Contains(text, columns)
}

// forbidden reports whether the answer says that the form of the request was wrong
// in a way that a schema can express.
func forbidden(a *answer) bool {
	if a.Code != 422 {
		return false
	}
	p := a.problem()
	return p.Code == domain.ValidationFailed && slices.ContainsFunc(p.Errors, func(f wire.FieldProblem) bool {
		return !slices.Contains(inexpressible, f.Code)
	})
}

func TestEveryRouteHasAnOperationAndBack(t *testing.T) {
	t.Parallel()
	doc, _ := contract()
	s := start(t)
	inDocument := map[string]string{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			path = strings.NewReplacer("{payment_id}", "{id}", "{refund_id}", "{id}", "{settlement_id}", "{id}", "{tile}", "{tile:.+}").Replace(path)
			inDocument[method+" "+path] = op.OperationID
			for status, r := range op.Responses.Map() {
				if r.Value.Content["application/json"] != nil && len(r.Value.Content) > 1 {
					t.Errorf("%s: generated clients take an answer with %s for JSON or another type: see inWords", op.OperationID, status)
				}
			}
			if len(op.Responses.Map()) == 0 || op.Summary == "" {
				t.Errorf("%s: needs a summary and responses", op.OperationID)
			}
		}
	}
	a, err := newAPI(s.cfg.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, rt := range a.routes() {
		name := rt.Method + " " + rt.Path
		if inDocument[name] != rt.Operation {
			t.Errorf("%s: operation %q in the document, %q in the table of routes", name, inDocument[name], rt.Operation)
		}
		delete(inDocument, name)
		if needs := strings.HasPrefix(rt.Path, "/v1/"); needs != (rt.Scope != "") {
			t.Errorf("%s: scope %q", name, rt.Scope)
		}
	}
	if len(inDocument) > 0 {
		t.Errorf("in the document only: %v", inDocument)
	}
}

// declared reads the codes of domain/errors.go: those of requests, and those of
// fields.
func declared(t *testing.T) (requests, fields []domain.Code) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../domain/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	groups := [][]domain.Code{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		var all []domain.Code
		for _, spec := range g.Specs {
			for _, v := range spec.(*ast.ValueSpec).Values {
				all = append(all, domain.Code(strings.Trim(v.(*ast.BasicLit).Value, `"`)))
			}
		}
		groups = append(groups, all)
	}
	if len(groups) != 2 {
		t.Fatalf("%d groups of codes", len(groups))
	}
	return groups[0], groups[1]
}

// adminOnly are the codes that only the administration and the account answer.
var adminOnly = []domain.Code{
	domain.ProjectNotFound, domain.KeyNotFound, domain.ParkedSignalNotFound,
	domain.NATSConsumerNotFound, domain.NATSConsumerExists, domain.NATSConsumerLimit, domain.NATSExternal,
	domain.LateFundsNotFound, domain.DisputeNotFound, domain.RefundedAtProvider, domain.NoConnector,
	domain.SettlementLineNotFound, domain.SettlementOpen, domain.SettlementDiffers,
	domain.PayoutDiffers, domain.PayoutNotFound,
}

func TestEveryCodeIsExplainedServedAndDocumented(t *testing.T) {
	t.Parallel()
	s := start(t)
	requests, fields := declared(t)
	inTable := func(rows []edge.ProblemRow) (all []domain.Code) {
		for _, r := range rows {
			all = append(all, r.Code)
			if r.Title == "" || r.Page == "" {
				t.Errorf("%s: needs a title and an explanation", r.Code)
			}
		}
		return all
	}
	sorted := func(c []domain.Code) []domain.Code { slices.Sort(c); return c }
	if rows := inTable(edge.ProblemRows()); !slices.Equal(sorted(rows), sorted(requests)) {
		t.Errorf("problems in the table %v, declared %v", rows, requests)
	}
	if rows := inTable(edge.FieldRows()); !slices.Equal(sorted(rows), sorted(fields)) {
		t.Errorf("field codes in the table %v, declared %v", rows, fields)
	}
	inDocument := documentedCodes(t)
	for _, code := range slices.Concat(requests, fields) {
		page := s.send("GET", "/problems/"+string(code), nil)
		if page.Code != 200 || !bytes.Contains(page.Body, []byte("<code>"+string(code)+"</code>")) {
			t.Errorf("/problems/%s: %d", code, page.Code)
		}
		if inDocument[code] == slices.Contains(adminOnly, code) {
			t.Errorf("%s: in the document: %v", code, inDocument[code])
		}
		delete(inDocument, code)
	}
	if len(inDocument) > 0 {
		t.Errorf("in the document only: %v", inDocument)
	}
}

// documentedCodes are the codes in the document's responses and field errors.
func documentedCodes(t *testing.T) map[domain.Code]bool {
	t.Helper()
	doc, _ := contract()
	all := map[domain.Code]bool{}
	collect := func(s *openapi3.Schema) {
		for _, e := range s.Enum {
			all[domain.Code(e.(string))] = true
		}
		if c, ok := s.Const.(string); ok {
			all[domain.Code(c)] = true
		}
	}
	for name, r := range doc.Components.Responses {
		media := r.Value.Content.Get("application/problem+json")
		if media == nil {
			t.Fatalf("%s: no problem document", name)
		}
		collect(media.Schema.Value.Properties["code"].Value)
	}
	collect(doc.Components.Schemas["FieldProblem"].Value.Properties["code"].Value)
	return all
}

func TestExamplesOfTheDocumentFitTheirSchemas(t *testing.T) {
	t.Parallel()
	doc, _ := contract()
	n := 0
	for name, s := range doc.Components.Schemas {
		for _, example := range s.Value.Examples {
			n++
			if err := s.Value.VisitJSON(example, openapi3.EnableJSONSchema2020()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if n < 8 {
		t.Errorf("only %d examples were found", n)
	}
}

// checkSchema checks a JSON text against a schema of the document.
func checkSchema(t *testing.T, name, text string) {
	t.Helper()
	doc, _ := contract()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	if err := doc.Components.Schemas[name].Value.VisitJSON(v, openapi3.EnableJSONSchema2020()); err != nil {
		t.Errorf("%s: %v\n%s", name, err, text)
	}
}

// The document's webhooks are exactly the kinds of notifications.
func TestNotificationsOfTheDocument(t *testing.T) {
	t.Parallel()
	doc, _ := contract()
	var kinds []string
	collect := func(s *openapi3.Schema) {
		for _, e := range s.Enum {
			kinds = append(kinds, e.(string))
		}
		if c, ok := s.Const.(string); ok {
			kinds = append(kinds, c)
		}
	}
	hooks := doc.Webhooks
	if len(hooks) != 3 {
		t.Fatalf("%d webhooks", len(hooks))
	}
	for name, item := range hooks {
		op := item.Post
		collect(op.RequestBody.Value.Content.Get("application/json").Schema.Value.Properties["type"].Value)
		var headers []string
		for _, p := range op.Parameters {
			headers = append(headers, p.Value.Name)
			if p.Value.Name == "webhook-signature" {
				one := "v1," + strings.Repeat("A", 43) + "="
				for n, want := range map[int]bool{0: false, 1: true, 1 + projects.MaxOldSecrets: true, 2 + projects.MaxOldSecrets: false} {
					sent := strings.TrimSuffix(strings.Repeat(one+" ", n), " ")
					if got := p.Value.Schema.Value.VisitJSON(sent) == nil; got != want {
						t.Errorf("%s: %d signatures: accepted %t", name, n, got)
					}
				}
			}
		}
		if want := []string{"webhook-id", "webhook-timestamp", "webhook-signature", "webhook-attempt", "traceparent"}; !slices.Equal(headers, want) {
			t.Errorf("%s: %v", name, headers)
		}
	}
	want := edge.Texts(append(domain.Kinds(), domain.KindEndpointTest))
	slices.Sort(kinds)
	slices.Sort(want)
	if !slices.Equal(kinds, want) {
		t.Errorf("%v, want %v", kinds, want)
	}
	var subscribed []string
	for _, e := range doc.Components.Schemas["WebhookKind"].Value.Enum {
		subscribed = append(subscribed, e.(string))
	}
	if !slices.Equal(subscribed, edge.Texts(domain.Kinds())) {
		t.Errorf("%v", subscribed)
	}
	var states []string
	for _, e := range doc.Components.Schemas["DeliveryState"].Value.Enum {
		states = append(states, e.(string))
	}
	if !slices.Equal(states, edge.Texts(domain.DeliveryStates())) {
		t.Errorf("%v", states)
	}
}
