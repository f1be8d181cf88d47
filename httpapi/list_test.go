package httpapi

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"

	"github.com/go-json-experiment/json/jsontext"
)

type listed struct {
	Data       []created
	NextCursor *string `json:"next_cursor"`
}

func (l listed) ids() []string {
	var ids []string
	for _, c := range l.Data {
		ids = append(ids, c.ID)
	}
	return ids
}

func (m shop) list(target string) listed {
	m.s.t.Helper()
	var l listed
	m.get(target).want(200, "").decode(&l)
	return l
}

func TestListsGoThroughEverythingOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	var all []string
	for range 45 {
		all = append(all, m.pay(`{"amount":1}`).want(201, "").object().ID)
		s.clock.advance(time.Millisecond)
	}
	slices.Reverse(all)
	for _, size := range []int{0, 1, 7, 44, 45, 46, 100} {
		target, want := "/v1/payments", 20
		if size > 0 {
			target, want = fmt.Sprintf("/v1/payments?limit=%d", size), size
		}
		var got []string
		for target != "" {
			a := m.get(target).want(200, "")
			var l listed
			a.decode(&l)
			got = append(got, l.ids()...)
			next := a.Header.Get("Link")
			if (next == "") != (l.NextCursor == nil) || (next != "" && len(l.Data) != want) {
				t.Fatalf("limit %d: %d rows, Link %q, next_cursor %v", size, len(l.Data), next, l.NextCursor)
			}
			target = strings.TrimSuffix(strings.TrimPrefix(next, "<"), `>; rel="next"`)
			if l.NextCursor != nil && !strings.Contains(target, url.QueryEscape(*l.NextCursor)) {
				t.Fatalf("Link %q, next_cursor %s", next, *l.NextCursor)
			}
			// Objects made meanwhile are newer, so they change no page.
			if target != "" && size == 7 {
				m.pay(`{"amount":1}`).want(201, "")
			}
		}
		if size == 7 {
			got = got[:45]
		}
		if size < 44 && !slices.Equal(got, all) {
			t.Errorf("limit %d: %v, want %v", size, got, all)
		}
	}
}

func TestPaymentFilters(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant(`{"currencies":["RUB","USD"]}`)
	newPayment := func(body string) string {
		id := m.pay(body).want(201, "").object().ID
		s.clock.advance(time.Minute)
		return id
	}
	a := newPayment(`{"amount":"10.00","description":"order-1"}`)
	b := newPayment(`{"amount":"20.00","description":"order-10","currency":"USD"}`)
	c := newPayment(`{"amount":"20.01","description":""}`)
	d := newPayment(`{"amount":"999999999.99"}`)
	m.route(c)
	m.post("/v1/sandbox/payments/"+c, `{"outcome":"failed"}`).want(200, "")
	const t0 = "2026-11-20T10:15:30.123Z"
	for query, want := range map[string][]string{
		"":                               {d, c, b, a},
		"status=created":                 {d, b, a},
		"status=failed":                  {c},
		"status=paid":                    nil,
		"currency=USD":                   {b},
		"currency=EUR":                   nil,
		"amount=20":                      {b},
		"amount=20.00":                   {b},
		"amount=20.0":                    {b},
		"amount_min=20":                  {d, c, b},
		"amount_max=20":                  {b, a},
		"amount_min=20&amount_max=20.01": {c, b},
		"amount_min=30&amount_max=20":    nil,
		"description=order-1":            {a},
		"description=ORDER-1":            nil,
		"description=":                   {c},
		"description_prefix=order-1":     {b, a},
		"description_prefix=order":       {b, a},
		"description_prefix=rder":        nil,
		"description=order-1&description_prefix=o":                        {a},
		"description_words=order":                                         {b, a},
		"created_from=1970-01-01T00:00:00Z":                               {d, c, b, a},
		"created_from=1970-01-01T03:00:00%2B03:00":                        {d, c, b, a},
		"created_to=1970-01-01T00:00:00Z":                                 nil,
		"description_words=10":                                            {b},
		"description_words=1":                                             {b, a},
		"description_words=1%20ORD":                                       {b, a},
		"description_words=rder":                                          nil,
		"description_words=order+11":                                      nil,
		"description_words=order&currency=USD&description_prefix=order-1": {b},
		"description_words=order&amount=20":                               {b},
		"created_from=" + t0:                                              {d, c, b, a},
		"created_to=" + t0:                                                nil,
		"created_from=2026-11-20T10:15:30.124Z":                           {d, c, b},
		"created_from=2026-11-20T10:16:30.123Z&created_to=2026-11-20T10:17:30.123Z": {b},
		"created_from=2026-11-20T13:16:30.123%2B03:00":                              {d, c, b},
		"created_to=2026-11-20T10:15:30.1230001Z":                                   {a},
		"created_from=2030-01-01T00:00:00Z":                                         nil,
		"status=created&currency=RUB&amount_min=1&description_prefix=o":             {a},
	} {
		l := m.list("/v1/payments?" + query)
		if !slices.Equal(l.ids(), want) {
			t.Errorf("%s: %v, want %v", query, l.ids(), want)
		}
	}
	// Pages of one row continue with the same filters.
	var got []string
	for target := "/v1/payments?limit=1&description_words=order&description_prefix=order&status=created"; target != ""; {
		l := m.list(target)
		got = append(got, l.ids()...)
		target = ""
		if l.NextCursor != nil {
			target = "/v1/payments?limit=1&cursor=" + *l.NextCursor
		}
	}
	if !slices.Equal(got, []string{b, a}) {
		t.Errorf("%v", got)
	}
}

func TestRefundFilters(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	p, q := m.paid(), m.paid()
	s.clock.advance(time.Second)
	first := m.refund(p).object().ID
	m.post("/v1/sandbox/refunds/"+first, `{"outcome":"failed"}`).want(200, "")
	s.clock.advance(time.Second)
	second := m.refund(p).object().ID
	s.clock.advance(time.Second)
	third := m.refund(q).object().ID
	for query, want := range map[string][]string{
		"":                                   {third, second, first},
		"status=pending":                     {third, second},
		"status=failed":                      {first},
		"status=succeeded":                   nil,
		"payment_id=" + p:                    {second, first},
		"payment_id=" + q:                    {third},
		"payment_id=" + strings.ToLower(q):   nil,
		"payment_id=":                        nil,
		"payment_id=" + third:                nil,
		"payment_id=" + domain.ID{}.String(): nil,
		"payment_id=" + p + "&status=failed": {first},
		"limit=1":                            {third},
	} {
		if l := m.list("/v1/refunds?" + query); !slices.Equal(l.ids(), want) {
			t.Errorf("%s: %v, want %v", query, l.ids(), want)
		}
	}
	next := *m.list("/v1/refunds?limit=2").NextCursor
	if l := m.list("/v1/refunds?cursor=" + next); !slices.Equal(l.ids(), []string{first}) || l.NextCursor != nil {
		t.Errorf("%+v", l)
	}
}

func TestInvalidParameters(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	for query, want := range map[string]string{
		"limit=0": "limit", "limit=101": "limit", "limit=-1": "limit", "limit=": "limit", "limit=x": "limit", "limit=1.0": "limit", "limit=+1": "limit",
		"limit=01": "limit", "limit=%201": "limit", "limit=99999999999999999999": "limit", "limit=1&limit=1": "limit", "limit": "limit",
		"status=": "status", "status=Paid": "status", "status=paid,failed": "status", "status=paid&status=failed": "status", "status=pending": "status",
		"currency=rub": "currency", "currency=": "currency", "currency=XXX": "currency", "currency=JPY": "currency",
		"amount=0": "amount", "amount=-1": "amount", "amount=1e2": "amount", "amount=1.000": "amount", "amount=": "amount", "amount=x": "amount",
		"amount_min=0": "amount_min", "amount_max=1000000000": "amount_max", "amount=1&amount_min=1": "amount",
		"created_from=2026-11-20": "created_from", "created_from=": "created_from", "created_from=yesterday": "created_from",
		"created_to=2026-11-20T10:00:00": "created_to", "created_to=2026-11-20T10:00:00+03:00": "created_to", "created_to=1700000000": "created_to",
		"created_to=1969-12-31T23:59:59.9999Z": "created_to", "created_from=2026-13-01T00:00:00Z": "created_from", "created_from=2026-11-20T10:00:00,5Z": "created_from", "created_from=1969-12-31T00:00:00Z": "created_from",
		"description_prefix=": "description_prefix", "description_words=": "description_words", "description_words=%20-%20": "description_words", "description=" + strings.Repeat("x", 129): "description", "description=%FF": "description",
		"unknown=1": "unknown", "Status=paid": "Status", "status%5B%5D=paid": "status[]", "offset=1": "offset", "page=2": "page", "payment_id=x": "payment_id",
		strings.Repeat("x", 65) + "=1": "", "%FF=1": "", "a;b=1": "", "a=%zz": "", "=1": "",
	} {
		p := m.get("/v1/payments?"+query).want(400, domain.InvalidParameter).problem()
		if p.Parameter != want {
			t.Errorf("%s: parameter %q, want %q", query, p.Parameter, want)
		}
	}
	if p := m.get("/v1/payments?currency=JPY").problem(); !strings.Contains(p.Detail, "two minor digits") {
		t.Errorf("%s", p.Detail) // JPY is a code in upper case
	}
	m.get("/v1/refunds?currency=RUB").want(400, domain.InvalidParameter)
	m.get("/v1/refunds?status=paid").want(400, domain.InvalidParameter)
}

func TestCursors(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, other := s.merchant(""), s.merchant("")
	for range 3 {
		m.pay(`{"amount":1,"description":"d"}`).want(201, "")
		other.pay(`{"amount":1}`).want(201, "")
	}
	id := m.paid()
	m.refund(id).want(201, "")
	cursor := *m.list("/v1/payments?limit=1&status=created").NextCursor
	if l := m.list("/v1/payments?limit=1&status=created&cursor=" + cursor); len(l.Data) != 1 {
		t.Errorf("filters repeated unchanged: %+v", l)
	}
	if l := m.list("/v1/payments?limit=100&cursor=" + cursor); len(l.Data) != 2 || l.NextCursor != nil {
		t.Errorf("another limit: %+v", l)
	}
	for query, name := range map[string]string{"status=paid": "status", "description=d": "description", "amount=1": "amount"} {
		if p := m.get("/v1/payments?cursor="+cursor+"&"+query).want(400, domain.InvalidParameter).problem(); p.Parameter != name {
			t.Errorf("%s: %+v", query, p)
		}
	}
	events := *m.list("/v1/payments/" + id + "/events?limit=1").NextCursor
	altered := []byte(cursor)
	altered[len(altered)/2] ^= 1
	forged := base64.RawURLEncoding.EncodeToString([]byte("12345678listPayments\n" + id + "\n"))
	for _, bad := range []string{
		"", "x", cursor[:len(cursor)-1], cursor + "A", cursor + "=", "%20" + cursor, string(altered), forged, strings.Repeat("A", 100), events, id, "null", cursor[:10] + "%0A" + cursor[10:],
	} {
		m.get("/v1/payments?cursor="+bad).want(400, domain.InvalidCursor)
	}
	m.get("/v1/refunds?cursor="+cursor).want(400, domain.InvalidCursor)
	m.get("/v1/payments/"+id+"/events?cursor="+cursor).want(400, domain.InvalidCursor)
	other.get("/v1/payments?cursor="+cursor).want(400, domain.InvalidCursor)
	m.get("/v1/payments/"+m.paid()+"/events?cursor="+events).want(400, domain.InvalidCursor)
	m.get("/v1/payments?cursor="+cursor+"&cursor="+cursor).want(400, domain.InvalidParameter)
}

func TestPaymentEventsAreTheStoredBytes(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.pay(`{"amount":1,"payload":{"a":"\u003c<"}}`, key(1)).want(201, "").object().ID
	m.route(id)
	s.merchant("") // another stream in between
	m.post("/v1/sandbox/payments/"+id, `{"outcome":"paid"}`).want(200, "")
	m.refund(id).want(201, "")
	var stored []string
	for r, err := range s.store.Scan(t.Context(), 0, filterOf(m.project)) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Stream.ID == id {
			details := ""
			if r.Sequence == 1 {
				details = fmt.Sprintf(`,"details":%s,"salt":"%x"`, r.Details[eventstore.SaltSize:], r.Details[:eventstore.SaltSize])
			}
			stored = append(stored, fmt.Sprintf(`{"position":%d,"event":%s%s}`, r.Position, r.Body, details))
		}
	}
	if got, want := string(m.get("/v1/payments/"+id+"/events").want(200, "").Body), `{"data":[`+strings.Join(stored, ",")+`],"next_cursor":null}`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if strings.Contains(strings.Join(stored, ""), "0190f5a1") || strings.Contains(strings.Join(stored, ""), m.secret) {
		t.Error("an event tells a key")
	}
	var got []string
	for target := "/v1/payments/" + id + "/events?limit=3"; target != ""; {
		a := m.get(target).want(200, "")
		var l struct {
			Data       []jsontext.Value
			NextCursor *string `json:"next_cursor"`
		}
		a.decode(&l)
		for _, d := range l.Data {
			got = append(got, string(d))
		}
		target = strings.TrimSuffix(strings.TrimPrefix(a.Header.Get("Link"), "<"), `>; rel="next"`)
	}
	if !slices.Equal(got, stored) {
		t.Errorf("page by page: %v", got)
	}
}
