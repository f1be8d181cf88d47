package domain_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"payledger/domain"
)

// The payment of the tables: 1500.00 RUB, created at zero o'clock, to be paid
// within the hour.
const (
	createdAt = domain.Instant(1795169730123)
	expiresAt = createdAt + 3_600_000
	graceEnd  = expiresAt + 300_000
	sum       = domain.Amount(150000)
)

func id(n byte) domain.ID { return domain.ID{15: n} }

func newPayment() domain.Payment { return domain.Payment{Project: "prj_1", ID: id(1)} }

func paymentCreated() domain.PaymentCreated {
	return domain.PaymentCreated{
		CreatedAt: createdAt, ExpiresAt: expiresAt, Amount: sum, Currency: "RUB",
		Description: new("order-1042"), Payload: domain.JSON(`{"cart":7}`),
		Link: domain.Link{Base: "https://pay.example.com", KeyVersion: 1, Render: 1},
	}
}

// word is a signal on the payment, begun in time and with the right amount.
func word(o domain.Outcome, reference string) domain.Signal {
	return domain.Signal{
		Route: "sandbox", Outcome: o, Reference: reference, Amount: sum, Currency: "RUB", StartedAt: createdAt,
	}
}

// refundWord is a signal on one of the payment's refunds.
func refundWord(o domain.Outcome, reference string, refund domain.ID) domain.Signal {
	s := word(o, reference)
	s.RefundID = &refund
	return s
}

// with returns a signal with one change.
func with(s domain.Signal, change func(*domain.Signal)) domain.Signal {
	change(&s)
	return s
}

// The events of a payment, by the status they lead to.
func missing() []domain.Event { return nil }
func created() []domain.Event { return []domain.Event{paymentCreated()} }

func awaiting() []domain.Event {
	return append(created(), domain.PaymentRouteAssigned{Route: "sandbox", Amount: sum, Currency: "RUB", ExpiresAt: expiresAt})
}

func paid() []domain.Event {
	return append(awaiting(), domain.PaymentPaid{Signal: word("paid", "P")})
}

func expired() []domain.Event {
	return append(awaiting(), domain.PaymentExpired{Reason: domain.ReasonDeadline})
}

func failed() []domain.Event {
	s := word("failed", "F")
	return append(awaiting(), domain.PaymentFailed{Reason: domain.ReasonProvider, Signal: &s})
}

func unroutable() []domain.Event {
	return append(created(), domain.PaymentFailed{Reason: domain.ReasonNoRoute})
}

func refundCreated(n byte) domain.RefundCreated {
	return domain.RefundCreated{RefundID: id(n), CreatedAt: expiresAt, Amount: sum, Currency: "RUB"}
}

func refunding() []domain.Event { return append(paid(), refundCreated(2)) }

func refunded() []domain.Event {
	return append(refunding(), domain.RefundSucceededEvent{RefundID: id(2), Signal: refundWord("succeeded", "R", id(2))})
}

func cameBack() []domain.Event {
	return append(refunded(), domain.RefundReturned{RefundID: id(2), Reason: "account_closed", Signal: refundWord("returned", "R", id(2))})
}

func unrefunded() []domain.Event {
	return append(refunding(), domain.RefundFailedEvent{RefundID: id(2), Signal: refundWord("failed", "R", id(2))})
}

func fold(events []domain.Event) domain.Payment {
	p := newPayment()
	for _, e := range events {
		p = p.Evolve(e)
	}
	return p
}

// decision is one row of a table: given events, when a command, then an event
// or an error. Without want and wantErr, the command changes nothing.
type decision struct {
	name    string
	given   []domain.Event
	when    domain.PaymentCommand
	want    domain.Event
	wantErr error
}

func runDecisions(t *testing.T, table []decision) {
	t.Helper()
	for _, tt := range table {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := fold(tt.given).Decide(tt.when)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantErr, err); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCreatePayment(t *testing.T) {
	t.Parallel()
	claim := &domain.Idempotency{Key: domain.Digest{1}, Fingerprint: domain.Digest{2}}
	create := func(change func(*domain.CreatePayment)) domain.CreatePayment {
		c := domain.CreatePayment{
			At: createdAt, Amount: sum, Currency: "RUB", Settings: domain.DefaultSettings(),
			Link: domain.Link{Base: "https://pay.example.com", KeyVersion: 1, Render: 1},
		}
		change(&c)
		return c
	}
	event := func(change func(*domain.PaymentCreated)) domain.PaymentCreated {
		e := paymentCreated()
		e.Description, e.Payload = nil, domain.JSON(`{}`)
		change(&e)
		return e
	}
	rub := []string{"RUB"}
	runDecisions(t, []decision{
		{
			name: "amount only",
			when: create(func(*domain.CreatePayment) {}),
			want: event(func(*domain.PaymentCreated) {}),
		},
		{
			name: "everything",
			when: create(func(c *domain.CreatePayment) {
				c.Description, c.Payload, c.Idempotency = new("order-1042"), domain.JSON(`{"cart":7}`), claim
			}),
			want: event(func(e *domain.PaymentCreated) {
				e.Description, e.Payload, e.Idempotency = new("order-1042"), domain.JSON(`{"cart":7}`), claim
			}),
		},
		{
			name: "empty description is kept",
			when: create(func(c *domain.CreatePayment) { c.Description = new("") }),
			want: event(func(e *domain.PaymentCreated) { e.Description = new("") }),
		},
		{
			name: "128 code points of more bytes",
			when: create(func(c *domain.CreatePayment) { c.Description = new(strings.Repeat("ж", 128)) }),
			want: event(func(e *domain.PaymentCreated) { e.Description = new(strings.Repeat("ж", 128)) }),
		},
		{
			name: "129 code points",
			when: create(func(c *domain.CreatePayment) { c.Description = new(strings.Repeat("ж", 129)) }),
			wantErr: domain.FieldErrors{
				{Field: "description", Code: domain.TooLong, Limit: 128, Got: 129},
			},
		},
		{
			name:    "control character C0",
			when:    create(func(c *domain.CreatePayment) { c.Description = new("a\tb") }),
			wantErr: domain.FieldErrors{{Field: "description", Code: domain.ControlCharacter}},
		},
		{
			name:    "control character C1",
			when:    create(func(c *domain.CreatePayment) { c.Description = new("a\u0085b") }),
			wantErr: domain.FieldErrors{{Field: "description", Code: domain.ControlCharacter}},
		},
		{
			name: "payload of 512 bytes",
			when: create(func(c *domain.CreatePayment) { c.Payload = payloadOf(512) }),
			want: event(func(e *domain.PaymentCreated) { e.Payload = payloadOf(512) }),
		},
		{
			name:    "payload of 513 bytes",
			when:    create(func(c *domain.CreatePayment) { c.Payload = payloadOf(513) }),
			wantErr: domain.FieldErrors{{Field: "payload", Code: domain.PayloadTooLarge, Limit: 512, Got: 513}},
		},
		{
			name: "greatest amount",
			when: create(func(c *domain.CreatePayment) { c.Amount = domain.MaxAmount }),
			want: event(func(e *domain.PaymentCreated) { e.Amount = domain.MaxAmount }),
		},
		{
			name:    "more than the greatest",
			when:    create(func(c *domain.CreatePayment) { c.Amount = domain.MaxAmount + 1 }),
			wantErr: domain.FieldErrors{{Field: "amount", Code: domain.AmountTooLarge, Max: domain.MaxAmount}},
		},
		{
			name:    "nothing to pay",
			when:    create(func(c *domain.CreatePayment) { c.Amount = 0 }),
			wantErr: domain.FieldErrors{{Field: "amount", Code: domain.AmountTooSmall, Min: domain.MinAmount}},
		},
		{
			name: "the project's own maximum",
			when: create(func(c *domain.CreatePayment) { c.Settings.MaxAmount = sum }),
			want: event(func(*domain.PaymentCreated) {}),
		},
		{
			name:    "above the project's own maximum",
			when:    create(func(c *domain.CreatePayment) { c.Settings.MaxAmount = sum - 1 }),
			wantErr: domain.FieldErrors{{Field: "amount", Code: domain.AmountTooLarge, Max: sum - 1}},
		},
		{
			name:    "currency not allowed",
			when:    create(func(c *domain.CreatePayment) { c.Currency = "EUR" }),
			wantErr: domain.FieldErrors{{Field: "currency", Code: domain.CurrencyNotSupported, Allowed: rub}},
		},
		{
			name:    "no currency at all, named once",
			when:    create(func(c *domain.CreatePayment) { c.Currency = "rub" }),
			wantErr: domain.FieldErrors{{Field: "currency", Code: domain.CurrencyNotSupported, Allowed: rub}},
		},
		{
			name: "currency the project allows",
			when: create(func(c *domain.CreatePayment) {
				c.Currency, c.Settings.Currencies = "EUR", []domain.Currency{"RUB", "EUR"}
			}),
			want: event(func(e *domain.PaymentCreated) { e.Currency = "EUR" }),
		},
		{
			name: "the project's own lifetime",
			when: create(func(c *domain.CreatePayment) { c.Settings.LifetimeSeconds = 300 }),
			want: event(func(e *domain.PaymentCreated) { e.ExpiresAt = createdAt.Add(5 * time.Minute) }),
		},
		{
			name: "all that is wrong, at once",
			when: create(func(c *domain.CreatePayment) {
				c.Amount, c.Currency, c.Payload = domain.MaxAmount+1, "EUR", payloadOf(600)
				c.Description = new(strings.Repeat("\n", 200))
			}),
			wantErr: domain.FieldErrors{
				{Field: "description", Code: domain.TooLong, Limit: 128, Got: 200},
				{Field: "description", Code: domain.ControlCharacter},
				{Field: "payload", Code: domain.PayloadTooLarge, Limit: 512, Got: 600},
				{Field: "amount", Code: domain.AmountTooLarge, Max: domain.MaxAmount},
				{Field: "currency", Code: domain.CurrencyNotSupported, Allowed: rub},
			},
		},
		{
			name:    "an id that is taken",
			given:   created(),
			when:    create(func(*domain.CreatePayment) {}),
			wantErr: &domain.Refusal{Code: domain.InternalError},
		},
	})
}

func payloadOf(n int) domain.JSON {
	return domain.JSON(`{"a":"` + strings.Repeat("x", n-len(`{"a":""}`)) + `"}`)
}

func TestCreatePaymentWithItsRoute(t *testing.T) {
	t.Parallel()
	cheap, dear := domain.Rule{Route: "a", Currency: "RUB", Min: 1, Max: sum - 1, Weight: 1}, domain.Rule{Route: "b", Min: 1, Max: domain.MaxAmount, Weight: 1}
	euro, never := domain.Rule{Route: "a", Currency: "EUR", Min: 1, Max: domain.MaxAmount, Weight: 1}, domain.Rule{Route: "a", Currency: "RUB", Min: 1, Max: domain.MaxAmount}
	with := func(table, paused domain.RoutingTable) domain.CreatePayment {
		c := domain.CreatePayment{At: createdAt, Amount: sum, Currency: "RUB", Description: paymentCreated().Description, Payload: paymentCreated().Payload, Settings: domain.DefaultSettings(), Link: paymentCreated().Link}
		c.Routing = &domain.Routing{Table: table, Paused: paused}
		return c
	}
	on := func(route string) domain.PaymentCreated {
		e := paymentCreated()
		e.Route = route
		return e
	}
	no := func(field string) error { return domain.FieldErrors{{Field: field, Code: domain.NoRoute}} }
	runDecisions(t, []decision{
		{name: "a rule takes it", given: missing(), when: with(routes(cheap, dear), nil), want: on("b")},
		{name: "no rule of its amount", given: missing(), when: with(routes(cheap), nil), wantErr: no("amount")},
		{name: "no rule of its currency", given: missing(), when: with(routes(euro), nil), wantErr: no("currency")},
		{name: "a rule that is never chosen", given: missing(), when: with(routes(never), nil), wantErr: no("currency")},
		{name: "no rule at all", given: missing(), when: with(nil, nil), wantErr: no("currency")},
		{name: "its route is paused", given: missing(), when: with(routes(cheap), routes(dear)), want: on("")},
		{name: "not even a paused route takes it", given: missing(), when: with(nil, routes(cheap)), wantErr: no("amount")},
	})
	p := domain.Payment{}.Evolve(on("b"))
	if p.Status != domain.AwaitingPayment || p.Route != "b" {
		t.Errorf("%+v", p)
	}
}

// TestCreationRoutesAsTheRouterDoes: whatever the rules, a payment gets the route at its
// creation that it would get if it waited for one.
func TestCreationRoutesAsTheRouterDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.Custom(func(t *rapid.T) domain.Rule {
			low := domain.Amount(rapid.IntRange(1, 4).Draw(t, "min"))
			return domain.Rule{
				Route: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "route"), Currency: rapid.SampledFrom([]domain.Currency{"", "RUB", "EUR"}).Draw(t, "currency"),
				Min: low, Max: low + domain.Amount(rapid.IntRange(0, 4).Draw(t, "width")), Weight: rapid.Uint32Range(0, 3).Draw(t, "weight"),
			}
		})
		routing := domain.Routing{Table: rapid.SliceOfN(rule, 0, 4).Draw(t, "in use"), Paused: rapid.SliceOfN(rule, 0, 2).Draw(t, "paused")}
		var id domain.ID
		copy(id[8:], rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "id"))
		create := domain.CreatePayment{
			Amount: domain.Amount(rapid.IntRange(1, 9).Draw(t, "amount")), Currency: "RUB", Settings: domain.DefaultSettings(),
		}
		waiting, err := domain.Payment{ID: id}.Decide(create)
		if err != nil {
			t.Fatal(err)
		}
		later := domain.Payment{ID: id}.Evolve(waiting)
		routed, err := later.Decide(domain.AssignRoute(routing))
		if err != nil {
			t.Fatal(err)
		}
		if routed != nil {
			later = later.Evolve(routed)
		}
		create.Routing = &routing
		created, err := domain.Payment{ID: id}.Decide(create)
		if later.Status == domain.Failed {
			if errs := (domain.FieldErrors{}); !errors.As(err, &errs) || errs[0].Code != domain.NoRoute {
				t.Fatalf("%v, %v", created, err)
			}
			return
		}
		if now := (domain.Payment{ID: id}).Evolve(created); err != nil || now.Status != later.Status || now.Route != later.Route {
			t.Fatalf("%s, %q; later: %s, %q; %v", now.Status, now.Route, later.Status, later.Route, err)
		}
	})
}

func TestAssignRoute(t *testing.T) {
	t.Parallel()
	table := routes(
		domain.Rule{Route: "a", Currency: "RUB", Min: 1, Max: sum, Weight: 1},
		domain.Rule{Route: "b", Currency: "RUB", Min: 1, Max: sum, Weight: 1},
	)
	assign := domain.AssignRoute{Table: table}
	none := domain.AssignRoute{Table: routes(domain.Rule{Route: "a", Currency: "EUR", Min: 1, Max: sum, Weight: 1})}
	runDecisions(t, []decision{
		{name: "missing", given: missing(), when: assign, wantErr: &domain.Refusal{Code: domain.PaymentNotFound}},
		{name: "created", given: created(), when: assign, want: domain.PaymentRouteAssigned{Route: "b", Amount: sum, Currency: "RUB", ExpiresAt: expiresAt}},
		{name: "no rule takes it", given: created(), when: none, want: domain.PaymentFailed{Reason: domain.ReasonNoRoute}},
		{name: "only a paused route takes it", given: created(), when: domain.AssignRoute{Table: none.Table, Paused: table}},
		{name: "a paused route and another take it", given: created(), when: domain.AssignRoute{Table: table[:1], Paused: table[1:]}, want: domain.PaymentRouteAssigned{Route: "a", Amount: sum, Currency: "RUB", ExpiresAt: expiresAt}},
		{name: "not even a paused route takes it", given: created(), when: domain.AssignRoute{Paused: none.Table}, want: domain.PaymentFailed{Reason: domain.ReasonNoRoute}},
		{name: "awaiting", given: awaiting(), when: none},
		{name: "paid", given: paid(), when: none},
		{name: "expired", given: expired(), when: none},
		{name: "failed", given: failed(), when: none},
	})
}

func TestExpirePayment(t *testing.T) {
	t.Parallel()
	at := func(i domain.Instant) domain.ExpirePayment { return domain.ExpirePayment{At: i} }
	deadline := domain.PaymentExpired{Reason: domain.ReasonDeadline}
	runDecisions(t, []decision{
		{name: "missing", given: missing(), when: at(graceEnd), wantErr: &domain.Refusal{Code: domain.PaymentNotFound}},
		{
			name: "created, 1 ms early", given: created(), when: at(expiresAt - 1),
			wantErr: &domain.TooEarlyError{Until: expiresAt},
		},
		{name: "created, on time", given: created(), when: at(expiresAt), want: deadline},
		{name: "created, 1 ms late", given: created(), when: at(expiresAt + 1), want: deadline},
		{
			name: "awaiting, deadline", given: awaiting(), when: at(expiresAt),
			wantErr: &domain.TooEarlyError{Until: graceEnd},
		},
		{
			name: "awaiting, 1 ms early", given: awaiting(), when: at(graceEnd - 1),
			wantErr: &domain.TooEarlyError{Until: graceEnd},
		},
		{name: "awaiting, on time", given: awaiting(), when: at(graceEnd), want: deadline},
		{name: "awaiting, 1 ms late", given: awaiting(), when: at(graceEnd + 1), want: deadline},
		{name: "paid", given: paid(), when: at(graceEnd)},
		{name: "expired", given: expired(), when: at(graceEnd)},
		{name: "failed", given: failed(), when: at(graceEnd)},
	})
}

func TestCreateRefund(t *testing.T) {
	t.Parallel()
	claim := &domain.Idempotency{Key: domain.Digest{1}, Fingerprint: domain.Digest{2}}
	refund := domain.CreateRefund{At: expiresAt, RefundID: id(3), Idempotency: claim}
	notPaid := func(s domain.PaymentStatus) error {
		return &domain.Refusal{Code: domain.PaymentNotPaid, PaymentStatus: s}
	}
	want := refundCreated(3)
	want.Idempotency = claim
	exists := func(s domain.RefundStatus) error {
		return &domain.Refusal{Code: domain.RefundExists, RefundID: id(2), RefundStatus: s}
	}
	again := append(unrefunded(), refundCreated(3))
	runDecisions(t, []decision{
		{name: "missing", given: missing(), when: refund, wantErr: &domain.Refusal{Code: domain.PaymentNotFound}},
		{name: "created", given: created(), when: refund, wantErr: notPaid(domain.Created)},
		{name: "awaiting", given: awaiting(), when: refund, wantErr: notPaid(domain.AwaitingPayment)},
		{name: "expired", given: expired(), when: refund, wantErr: notPaid(domain.Expired)},
		{name: "failed", given: failed(), when: refund, wantErr: notPaid(domain.Failed)},
		{name: "paid", given: paid(), when: refund, want: want},
		{name: "refund pending", given: refunding(), when: refund, wantErr: exists(domain.RefundPending)},
		{name: "refund succeeded", given: refunded(), when: refund, wantErr: exists(domain.RefundSucceeded)},
		{name: "refund failed", given: unrefunded(), when: refund, want: want},
		{name: "refund came back", given: cameBack(), when: refund, want: want},
		{
			name: "second refund pending after the first came back", given: append(cameBack(), refundCreated(3)),
			when:    domain.CreateRefund{At: expiresAt, RefundID: id(4)},
			wantErr: &domain.Refusal{Code: domain.RefundExists, RefundID: id(3), RefundStatus: domain.RefundPending},
		},
		{
			name: "second refund pending after the first failed", given: again,
			when: domain.CreateRefund{At: expiresAt, RefundID: id(4)},
			wantErr: &domain.Refusal{
				Code: domain.RefundExists, RefundID: id(3), RefundStatus: domain.RefundPending,
			},
		},
		{
			name: "an id that is taken", given: unrefunded(),
			when:    domain.CreateRefund{At: expiresAt, RefundID: id(2)},
			wantErr: &domain.Refusal{Code: domain.InternalError},
		},
	})
}

// Late funds do not change the payment's status, so the merchant cannot refund them.
func TestLateFundsDoNotOpenTheWayToARefund(t *testing.T) {
	t.Parallel()
	p := fold(append(expired(), domain.PaymentLateFunds{Reason: domain.ReasonAfterExpired, Signal: word("paid", "L")}))
	_, err := p.Decide(domain.CreateRefund{At: graceEnd, RefundID: id(3)})
	var refusal *domain.Refusal
	if !errors.As(err, &refusal) || refusal.Code != domain.PaymentNotPaid {
		t.Errorf("refund of late funds: %v", err)
	}
}
