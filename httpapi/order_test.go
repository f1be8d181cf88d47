package httpapi

import (
	"strings"
	"testing"

	"payledger/domain"
	"payledger/httpapi/edge"
)

// Each request breaks two rules or more; the check that comes first decides. The
// table follows the order of the checks.
func TestEarlierCheckDecides(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	disabled := s.merchant("")
	s.adminDo("POST", "/admin/projects/"+disabled.project+"/disable", "{}").want(200, "")
	reader := s.merchant("", "read")
	strict := s.merchant(`{"require_idempotency_key":true,"max_amount":"10"}`)
	used := key(1)
	m.pay(`{"amount":"5"}`, used).want(201, "")
	strict.pay(`{"amount":"5"}`, used).want(201, "")

	const unknownID = "00000000000000000000000000"
	huge := strings.Repeat("x", edge.MaxBody+1)
	nobody := header{"Authorization", "Bearer nobody:nothing"}
	as := func(m shop) header { return header{"Authorization", m.authorization()} }
	jsonType := header{"Content-Type", "application/json"}
	text := header{"Content-Type", "text/plain"}
	badKey := header{"Idempotency-Key", "not a uuid"}

	for _, c := range []struct {
		name           string
		method, target string
		body           string
		headers        []header
		status         int
		code           domain.Code
	}{
		{"401 before unknown path", "POST", "/v1/nothing", "{", []header{nobody, text}, 401, domain.Unauthorized},
		{"401 before unknown version", "GET", "/v2/payments", "", []header{nobody}, 401, domain.Unauthorized},
		{"401 before 405", "DELETE", "/v1/payments", "", []header{nobody}, 401, domain.Unauthorized},
		{"401 before 415, 413, 400", "POST", "/v1/payments", huge, []header{nobody, text, badKey}, 401, domain.Unauthorized},
		{"401 before 422", "POST", "/v1/payments", "{}", []header{nobody, jsonType}, 401, domain.Unauthorized},
		{"401 before invalid parameter", "GET", "/v1/payments?limit=x", "", []header{nobody}, 401, domain.Unauthorized},
		{"disabled before unknown path", "GET", "/v1/nothing", "", []header{as(disabled)}, 403, domain.ProjectDisabledCode},
		{"disabled before 405", "PUT", "/v1/payments", "", []header{as(disabled)}, 403, domain.ProjectDisabledCode},
		{"404 path before 415", "POST", "/v1/payments/", "{", []header{as(m), text}, 404, domain.PathNotFound},
		{"405 before scope", "PUT", "/v1/payments", "", []header{as(reader)}, 405, domain.MethodNotAllowed},
		{"405 before 415", "PATCH", "/v1/payments", huge, []header{as(m), text}, 405, domain.MethodNotAllowed},
		{"scope before 415", "POST", "/v1/payments", "{", []header{as(reader), text}, 403, domain.ScopeMissing},
		{"415 before 413", "POST", "/v1/payments", huge, []header{as(m), text}, 415, domain.UnsupportedMediaType},
		{"415 before empty body", "POST", "/v1/payments", "", []header{as(m)}, 415, domain.UnsupportedMediaType},
		{"413 before bad JSON", "POST", "/v1/payments", huge, []header{as(m), jsonType}, 413, domain.BodyTooLarge},
		{"413 before bad key", "POST", "/v1/payments", huge, []header{as(m), jsonType, badKey}, 413, domain.BodyTooLarge},
		{"400 JSON before bad key", "POST", "/v1/payments", "{", []header{as(m), jsonType, badKey}, 400, domain.MalformedJSON},
		{"400 duplicate before bad key", "POST", "/v1/payments", `{"a":1,"a":2}`, []header{as(m), jsonType, badKey}, 400, domain.DuplicateMember},
		{"400 JSON before 422", "POST", "/v1/payments", `{"amount":"x","unknown":1,}`, []header{as(m), jsonType}, 400, domain.MalformedJSON},
		{"400 encoding before JSON", "POST", "/v1/payments", "{\xff", []header{as(m), jsonType}, 400, domain.InvalidEncoding},
		{"400 key before 422", "POST", "/v1/payments", "{}", []header{as(m), jsonType, badKey}, 400, domain.IdempotencyKeyInvalid},
		{"400 key before 422 of a body that is no object", "POST", "/v1/payments", "[]", []header{as(m), jsonType, badKey}, 400, domain.IdempotencyKeyInvalid},
		{"400 key required before 422", "POST", "/v1/payments", "{}", []header{as(strict), jsonType}, 400, domain.IdempotencyKeyRequired},
		{"400 key required before 404", "POST", "/v1/refunds", `{"payment_id":"x"}`, []header{as(strict), jsonType}, 400, domain.IdempotencyKeyRequired},
		{"422 before the key's lookup", "POST", "/v1/payments", `{"amount":"-1"}`, []header{as(m), jsonType, used}, 422, domain.ValidationFailed},
		{"the key's lookup before the project's limits", "POST", "/v1/payments", `{"amount":"500"}`, []header{as(strict), jsonType, used}, 422, domain.IdempotencyKeyReused},
		{"the key's lookup before 404", "POST", "/v1/refunds", `{"payment_id":"` + unknownID + `"}`, []header{as(m), jsonType, used}, 422, domain.IdempotencyKeyReused},
		{"the key's lookup before 404 of what is no id", "POST", "/v1/refunds", `{"payment_id":"no id"}`, []header{as(m), jsonType, used}, 422, domain.IdempotencyKeyReused},
		{"422 refund fields before 404", "POST", "/v1/refunds", `{"payment_id":"x","amount":1}`, []header{as(m), jsonType}, 422, domain.ValidationFailed},
		{"sandbox: 422 before 404", "POST", "/v1/sandbox/payments/x", `{"outcome":"?"}`, []header{as(m), jsonType}, 422, domain.ValidationFailed},
		{"webhooks: 401 before 404", "GET", endpointsPath + "/we_x", "", []header{nobody}, 401, domain.Unauthorized},
		{"webhooks: scope before 404", "POST", endpointsPath + "/we_x", "{", []header{as(reader), text}, 403, domain.ScopeMissing},
		{"webhooks: 405 before scope", "PUT", endpointsPath + "/we_x/test", "", []header{as(reader)}, 405, domain.MethodNotAllowed},
		{"webhooks: 415 before 404", "POST", endpointsPath + "/we_x", "{}", []header{as(m), text}, 415, domain.UnsupportedMediaType},
		{"webhooks: 413 before 404", "POST", endpointsPath + "/we_x/enable", huge, []header{as(m), jsonType}, 413, domain.BodyTooLarge},
		{"webhooks: 400 before 422", "POST", endpointsPath, `{"url":1,}`, []header{as(m), jsonType}, 400, domain.MalformedJSON},
		{"webhooks: 422 before 404", "POST", endpointsPath + "/we_x", `{"url":1}`, []header{as(m), jsonType}, 422, domain.ValidationFailed},
		{"webhooks: 422 of an overlap before 404", "POST", endpointsPath + "/we_x/rotate-secret", `{"overlap_seconds":-1}`, []header{as(m), jsonType}, 422, domain.ValidationFailed},
		{"webhooks: 422 of what has nothing to say before 404", "POST", endpointsPath + "/we_x/test", `{"x":1}`, []header{as(m), jsonType}, 422, domain.ValidationFailed},
		{"webhooks: 422 of a time before 404", "POST", endpointsPath + "/we_x/recover", `{}`, []header{as(m), jsonType}, 422, domain.ValidationFailed},
		{"webhooks: endpoint before delivery", "GET", endpointsPath + "/we_x/deliveries/x", "", []header{as(m)}, 404, domain.WebhookEndpointNotFound},
		{"webhooks: 400 before 404", "GET", endpointsPath + "/we_x/deliveries?state=x", "", []header{as(m)}, 400, domain.InvalidParameter},
		{"deliveries of a payment: 400 before 404", "GET", "/v1/payments/x/deliveries?limit=0", "", []header{as(m)}, 400, domain.InvalidParameter},
		{"list: 400 before 404", "GET", "/v1/payments/x/events?limit=0", "", []header{as(m)}, 400, domain.InvalidParameter},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before, _ := s.store.Last(t.Context())
			s.send(c.method, c.target, strings.NewReader(c.body), c.headers...).want(c.status, c.code)
			if after, _ := s.store.Last(t.Context()); after != before {
				t.Errorf("%d events were recorded", after-before)
			}
		})
	}
}

// 429 comes after the path and before the body.
func TestRateLimitInTheOrderOfChecks(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *settings) {
		c.Limits, c.FailedAuthPerMinute = domain.Limits{RateWrites: 1}, 100
	})
	m := s.merchant("")
	reader := s.merchant("", "read")
	m.pay(`{"amount":1}`).want(201, "")
	m.pay(`{"amount":1}`).want(201, "")
	m.send("POST", "/v1/payments", strings.NewReader("{"), header{"Content-Type", "text/plain"}).want(429, domain.RateLimited)
	m.send("POST", "/v1/nothing", nil).want(404, domain.PathNotFound)
	m.send("PUT", "/v1/payments", nil).want(405, domain.MethodNotAllowed)
	s.send("POST", "/v1/payments", nil, header{"Authorization", m.authorization() + "x"}).want(401, domain.Unauthorized)
	for range 3 { // a missing scope uses nothing up
		reader.pay(`{"amount":1}`).want(403, domain.ScopeMissing)
	}
}
