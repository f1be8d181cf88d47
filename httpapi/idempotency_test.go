package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/checkout"
	"payledger/httpapi/merchant"
)

const someKey = "0190f5a1-7c1e-4b6e-9d3a-5f0c2b7e8a11"

func TestIdempotencyKeyForm(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	first := m.pay(`{"amount":1}`, header{"Idempotency-Key", someKey}).want(201, "")
	for _, same := range []string{someKey, strings.ToUpper(someKey), `"` + someKey + `"`, `"` + strings.ToUpper(someKey) + `"`, "  " + someKey + " ", "0190F5a1-7c1E-4b6e-9D3a-5f0c2b7e8A11"} {
		a := m.pay(`{"amount":1}`, header{"Idempotency-Key", same}).want(201, "")
		if !bytes.Equal(a.Body, first.Body) || a.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%q is another key", same)
		}
	}
	if first.Header.Get("Idempotent-Replayed") != "" {
		t.Error("the first answer is marked as a repetition")
	}
	for _, other := range []string{"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "01890a5d-ac96-774b-bcce-b302099a8057"} {
		if a := m.pay(`{"amount":1}`, header{"Idempotency-Key", other}).want(201, ""); bytes.Equal(a.Body, first.Body) {
			t.Errorf("%q is the same key", other)
		}
	}
	for _, bad := range [][]string{
		{""},
		{"x"},
		{strings.ReplaceAll(someKey, "-", "")},
		{"{" + someKey + "}"},
		{"urn:uuid:" + someKey},
		{someKey[:35]},
		{someKey + "0"},
		{`"` + someKey},
		{someKey + `"`},
		{"'" + someKey + "'"},
		{`""` + someKey + `""`},
		{strings.Replace(someKey, "0", "g", 1)},
		{`""`},
		{someKey + "," + someKey},
		{someKey, someKey},
		{someKey, "x"},
		{someKey, ""},
		{strings.ReplaceAll(someKey, "-", "_")},
		{"0190f5a17-c1e-4b6e-9d3a-5f0c2b7e8a11"},
		{`" ` + someKey + `"`},
		{someKey + ";x=1"},
		{strings.Repeat("a", 5000)},
		{"０190f5a1-7c1e-4b6e-9d3a-5f0c2b7e8a11"},
	} {
		var headers []header
		for _, l := range bad {
			headers = append(headers, header{"Idempotency-Key", l})
		}
		m.pay(`{"amount":1}`, headers...).want(400, domain.IdempotencyKeyInvalid)
		m.refund("x", headers...).want(400, domain.IdempotencyKeyInvalid)
	}
}

func TestSameCommandReplaysTheFirstAnswer(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	first := m.pay(`{"amount":"100","description":"d","payload":{"a":[1,2]}}`, key(1)).want(201, "")
	id := first.object().ID
	replay := func(m shop, body string) {
		t.Helper()
		a := m.pay(body, key(1)).want(201, "")
		if !bytes.Equal(a.Body, first.Body) || a.Header.Get("Location") != first.Header.Get("Location") || a.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: %s %v", body, a.Body, a.Header)
		}
	}
	for _, same := range []string{
		`{"amount":"100","description":"d","payload":{"a":[1,2]}}`,
		`{"amount":100,"description":"d","payload":{"a":[1,2]}}`,
		`{"amount":100.0,"currency":"RUB","description":"d","payload":{"a":[1,2]}}`,
		`{"payload": { "a" : [ 1 , 2 ] }, "description":"\u0064", "currency":null, "amount":"100.00"}`,
	} {
		replay(m, same)
	}
	m.route(id)
	replay(m, `{"amount":100,"description":"d","payload":{"a":[1,2]}}`)
	m.post("/v1/sandbox/payments/"+id, `{"outcome":"paid"}`).want(200, "")
	replay(m, `{"amount":100,"description":"d","payload":{"a":[1,2]}}`)
	// The settings of the project and of the server change.
	s.adminDo("POST", "/admin/projects/"+m.project, `{"settings":{"max_amount":"50","currencies":["USD"],"lifetime_seconds":300}}`).want(200, "")
	replay(m, `{"amount":100,"description":"d","payload":{"a":[1,2]}}`)
	other := s.again(func(c *settings) {
		c.PublicURL = "https://elsewhere.example"
		var err error
		if c.Links, err = checkout.NewLinks(map[int][32]byte{1: {1}, 2: {2}}, 2); err != nil {
			t.Fatal(err)
		}
	})
	replay(m.on(other), `{"amount":100,"description":"d","payload":{"a":[1,2]}}`)
	m.pay(`{"amount":100}`).want(422, domain.ValidationFailed)
	if url := m.on(other).pay(`{"amount":1,"currency":"USD"}`).want(201, "").object().Instructions.URL; !strings.HasPrefix(url, "https://elsewhere.example/p/2") {
		t.Errorf("a new payment's link is %s", url)
	}
	m.pay(`{"amount":100,"description":"e","payload":{"a":[1,2]}}`, key(1)).want(422, domain.IdempotencyKeyReused)
}

// TestKeyOfAnEarlierVersion: up to format 5 of the log a fingerprint was a plain SHA-256. A request
// that was answered then gets the same answer, and another one under its key is still told apart.
func TestKeyOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	paid := m.paid()
	claim := func(key header, members ...string) *eventstore.Claim {
		digest, err := merchant.ParseKey(key[1])
		if err != nil {
			t.Fatal(err)
		}
		var b []byte
		for _, text := range members {
			b = append(binary.BigEndian.AppendUint64(b, uint64(len(text))), text...)
		}
		return &eventstore.Claim{Key: *digest, Fingerprint: sha256.Sum256(b)}
	}
	record := func(id domain.ID, c *eventstore.Claim, command func(event domain.ID, i *domain.Idempotency) domain.PaymentCommand) {
		event := s.cfg.IDs.Next()
		_, err := eventstore.Execute(t.Context(), s.cfg.Ledger, eventstore.PaymentStream(m.project, id), domain.Payment{Project: m.project, ID: id},
			command(event, &domain.Idempotency{Key: c.Key, Fingerprint: c.Fingerprint}), eventstore.Order{EventID: event, Claim: c})
		if err != nil {
			t.Fatal(err)
		}
	}
	id := s.cfg.IDs.Next()
	record(id, claim(key(1), "POST", "/v1/payments", "100.00", "RUB", "=d", `{"a":1}`), func(event domain.ID, i *domain.Idempotency) domain.PaymentCommand {
		description := "d"
		return domain.CreatePayment{
			At: domain.IDTime(event), Amount: 10000, Currency: "RUB", Description: &description, Payload: domain.JSON(`{"a":1}`),
			Settings: domain.DefaultSettings(), Link: domain.Link{Base: publicURL, KeyVersion: 1, Render: 1}, Idempotency: i,
		}
	})
	refund, _ := domain.ParseID(paid)
	record(refund, claim(key(2), "POST", "/v1/refunds", paid), func(event domain.ID, i *domain.Idempotency) domain.PaymentCommand {
		return domain.CreateRefund{At: domain.IDTime(event), RefundID: s.cfg.IDs.Next(), Idempotency: i}
	})
	for _, a := range []*answer{m.pay(`{"amount":100,"description":"d","payload":{"a":1}}`, key(1)), m.refund(paid, key(2))} {
		if a.want(201, ""); a.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("made anew: %s", a.Body)
		}
	}
	m.pay(`{"amount":100,"description":"d","payload":{"a":2}}`, key(1)).want(422, domain.IdempotencyKeyReused)
	m.refund(id.String(), key(2)).want(422, domain.IdempotencyKeyReused)
}

func TestKeyReusedNamesWhatDiffers(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant(`{"currencies":["RUB","USD"]}`)
	paid := m.paid()
	m.pay(`{"amount":100,"description":"d","payload":{"a":1}}`, key(1)).want(201, "")
	m.pay(`{"amount":100}`, key(2)).want(201, "")
	m.refund(paid, key(3)).want(201, "")
	for _, c := range []struct {
		key          header
		target, body string
		want         []string
	}{
		{key(1), "/v1/payments", `{"amount":101,"description":"d","payload":{"a":1}}`, []string{"amount"}},
		{key(1), "/v1/payments", `{"amount":100,"currency":"USD","description":"d","payload":{"a":1}}`, []string{"currency"}},
		{key(1), "/v1/payments", `{"amount":100,"payload":{"a":1}}`, []string{"description"}},
		{key(1), "/v1/payments", `{"amount":100,"description":"","payload":{"a":1}}`, []string{"description"}},
		{key(1), "/v1/payments", `{"amount":100,"description":"d","payload":{"a":2}}`, []string{"payload"}},
		{key(1), "/v1/payments", `{"amount":100,"description":"d","payload":{"\u0061":1}}`, []string{"payload"}},
		{key(1), "/v1/payments", `{"amount":100,"description":"d"}`, []string{"payload"}},
		{key(1), "/v1/payments", `{"amount":1,"currency":"USD"}`, []string{"amount", "currency", "description", "payload"}},
		{key(2), "/v1/payments", `{"amount":100,"description":""}`, []string{"description"}},
		{key(2), "/v1/payments", `{"amount":100,"currency":"EUR"}`, []string{"currency"}}, // before the project's own limits
		{key(1), "/v1/refunds", `{"payment_id":"` + paid + `"}`, []string{"endpoint"}},
		{key(3), "/v1/refunds", `{"payment_id":"x"}`, []string{"payment_id"}},
		{key(3), "/v1/refunds", `{"payment_id":"` + strings.ToLower(paid) + `"}`, []string{"payment_id"}},
		{key(3), "/v1/payments", `{"amount":100}`, []string{"endpoint"}},
	} {
		a := m.post(c.target, c.body, c.key).want(422, domain.IdempotencyKeyReused)
		p := a.problem()
		if !slices.Equal(p.Members, c.want) {
			t.Errorf("%s: members %v, want %v", c.body, p.Members, c.want)
		}
		for _, name := range c.want {
			if !strings.Contains(p.Detail, name) {
				t.Errorf("%s: %s", c.body, p.Detail)
			}
		}
	}
}

func TestRefusalsDoNotBurnTheKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant(`{"max_amount":"10"}`)
	m.pay(`{"amount":`, key(1)).want(400, domain.MalformedJSON)
	m.pay(`{"amount":"x"}`, key(1)).want(422, domain.ValidationFailed)
	m.pay(`{"amount":11}`, key(1)).want(422, domain.ValidationFailed)
	id := m.pay(`{"amount":1}`, key(1)).want(201, "").object().ID
	m.refund("nothing", key(2)).want(404, domain.PaymentNotFound)
	m.refund(id, key(2)).want(409, domain.PaymentNotPaid)
	m.route(id)
	m.post("/v1/sandbox/payments/"+id, `{"outcome":"paid"}`).want(200, "")
	first := m.refund(id, key(2)).want(201, "")
	again := m.refund(id, key(2)).want(201, "")
	if !bytes.Equal(first.Body, again.Body) || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%s", again.Body)
	}
	m.refund(id, key(3)).want(409, domain.RefundExists)
}

func TestKeyCanBeRequired(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant(`{"require_idempotency_key":true}`)
	m.pay(`{"amount":1}`).want(400, domain.IdempotencyKeyRequired)
	m.refund("x").want(400, domain.IdempotencyKeyRequired)
	m.pay(`{"amount":1}`, header{"Idempotency-Key", ""}).want(400, domain.IdempotencyKeyInvalid)
	m.pay(`{"amount":1}`, key(1)).want(201, "")
	m.get("/v1/payments").want(200, "")
}

func TestParallelRequestsWithOneKeyGetOneAnswer(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	answers := parallel(100, func(int) *answer { return m.pay(`{"amount":"1500.00"}`, key(1)) })
	replayed := 0
	for _, a := range answers {
		a.want(201, "")
		if !bytes.Equal(a.Body, answers[0].Body) {
			t.Fatalf("%s\n%s", a.Body, answers[0].Body)
		}
		if a.Header.Get("Idempotent-Replayed") == "true" {
			replayed++
		}
	}
	if replayed != 99 {
		t.Errorf("%d of 100 answers are repetitions", replayed)
	}
	var list struct{ Data []created }
	m.get("/v1/payments").decode(&list)
	if len(list.Data) != 1 {
		t.Errorf("%d payments", len(list.Data))
	}
}

func TestParallelRefundsOfOnePayment(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.paid()
	made := 0
	for _, a := range parallel(50, func(int) *answer { return m.refund(id) }) {
		if a.Code == 201 {
			made++
			continue
		}
		a.want(409, domain.RefundExists)
	}
	if made != 1 {
		t.Errorf("%d refunds", made)
	}
	// Concurrent requests with one key all get the first 201.
	id = m.paid()
	answers := parallel(50, func(int) *answer { return m.refund(id, key(1)) })
	for _, a := range answers {
		if a.want(201, ""); !bytes.Equal(a.Body, answers[0].Body) {
			t.Fatalf("%s\n%s", a.Body, answers[0].Body)
		}
	}
}

func TestParallelDifferentCommandsWithOneKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	answers := parallel(40, func(i int) *answer { return m.pay(fmt.Sprintf(`{"amount":%d}`, 1+i%2), key(1)) })
	amounts := map[string]bool{}
	for _, a := range answers {
		if a.Code == 201 {
			amounts[a.object().Amount] = true
			continue
		}
		a.want(422, domain.IdempotencyKeyReused)
	}
	if len(amounts) != 1 {
		t.Errorf("amounts %v under one key", amounts)
	}
}

func parallel(n int, do func(int) *answer) []*answer {
	answers := make([]*answer, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { answers[i] = do(i) })
	}
	all.Wait()
	return answers
}
