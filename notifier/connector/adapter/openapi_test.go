package adapter_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/go-json-experiment/json"

	"payledger/notifier/connector/adapter"
	"payledger/notifier/connector/adapter/adaptertest"
	"payledger/notifier/connector/client"
)

// contract is the document, read once for the whole run of tests.
var contract = sync.OnceValues(func() (*openapi3.T, routers.Router) {
	doc, err := openapi3.NewLoader().LoadFromData(adapter.OpenAPI)
	if err != nil {
		panic(err)
	}
	doc.Servers = nil
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		panic(err)
	}
	return doc, router
})

// judged is an adapter whose calls and answers are held against the document.
func judged(t *testing.T) *adaptertest.Provider {
	t.Helper()
	p := adaptertest.New()
	server := httptest.NewServer(judge(t, p))
	t.Cleanup(server.Close)
	p.URL, p.Client = server.URL, server.Client()
	return p
}

func judge(t *testing.T, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		k := &keeper{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			if r.Context().Err() == nil && k.Header().Get(client.HeaderSignature) != "" {
				described(t, r, body, k)
			}
		}()
		next.ServeHTTP(k, r)
	})
}

// described checks a call and its answer.
func described(t *testing.T, r *http.Request, body []byte, k *keeper) {
	_, router := contract()
	r = r.Clone(t.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	route, params, err := router.FindRoute(r)
	if err != nil {
		t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		return
	}
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: &openapi3filter.Options{IncludeResponseStatus: true}}
	if err := openapi3filter.ValidateRequest(t.Context(), in); err != nil {
		t.Errorf("the call %s is not as described: %v", body, err)
	}
	header := maps.Clone(k.Header())
	header.Set("Content-Type", "application/json")
	answer := (&openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: k.status, Header: header}).SetBodyBytes(k.body.Bytes())
	if err := openapi3filter.ValidateResponse(t.Context(), answer); err != nil {
		t.Errorf("the answer %d %s to %s is not as described: %v", k.status, k.body.Bytes(), body, err)
	}
}

// keeper keeps what is answered.
type keeper struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (k *keeper) WriteHeader(status int) {
	k.status = status
	k.ResponseWriter.WriteHeader(status)
}

func (k *keeper) Write(b []byte) (int, error) {
	if k.body.Len() < 1<<20 {
		k.body.Write(b)
	}
	return k.ResponseWriter.Write(b)
}

func TestOpenAPIIsValid(t *testing.T) {
	t.Parallel()
	doc, _ := contract()
	if err := doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Errorf("version %s", doc.OpenAPI)
	}
	schema := doc.Webhooks["changed"].Post.RequestBody.Value.Content["application/json"].Schema.Value
	for body, valid := range map[string]bool{
		`{"reference":"a"}`: true, `{"payment_id":"01M7W78FJBM8T4R7B5N0C1D2E3","refunds":true}`: true, `{"reference":"a","disputes":true}`: true, `{"test":true}`: true,
		`{}`: false, `{"refunds":true}`: false, `{"reference":""}`: false, `{"reference":"a","amount":"1.00"}`: false, `{"test":false}`: false,
		`{"payment_id":"01m7w78fjbm8t4r7b5n0c1d2e3"}`: false,
	} {
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatal(err)
		}
		if err := schema.VisitJSON(v, openapi3.EnableJSONSchema2020()); (err == nil) != valid {
			t.Errorf("%s: %v", body, err)
		}
		n := adaptertest.New().Signed([]byte(body))
		_, err := adaptertest.New().Connector().Notices(t.Context(), n.Header, n.Body)
		if (err == nil) != valid {
			t.Errorf("payledger reads %s: %v", body, err)
		}
	}
}
