package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The operations on one payment.
const (
	opCreate    = "create" // always under the payment's own idempotency key
	opGet       = "get"
	opPay       = "pay" // the provider's word, through the sandbox
	opRefund    = "refund"
	opGetRefund = "get refund"
)

// asked is what a client asked for.
type asked struct {
	op      string
	payment int    // which of the payments; histories are checked one by one
	id      string // of the refund that is read
}

// answered is the answer to an operation.
type answered struct {
	unknown  bool // the connection broke: it happened at some time, or never
	code     int
	id       string // of the payment or refund
	status   string // of the payment or refund
	replayed bool   // under the idempotency key, the first answer again
}

// known is the state of one payment in the model. An id that was in no
// answer yet is "?".
type known struct {
	payment string
	status  string
	refund  string
}

// paymentModel is the sequential payment: what one client alone would see.
func paymentModel() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			var parts [][]porcupine.Operation
			for _, o := range history {
				n := o.Input.(asked).payment
				for len(parts) <= n {
					parts = append(parts, nil)
				}
				parts[n] = append(parts[n], o)
			}
			return parts
		},
		Init: func() any { return known{} },
		Step: func(state, in, out any) (bool, any) {
			return step(state.(known), in.(asked), out.(answered))
		},
	}
}

func step(s known, in asked, out answered) (bool, known) {
	if out.unknown {
		return true, lost(s, in)
	}
	switch in.op {
	case opCreate:
		if out.code != 201 || out.status != "awaiting_payment" || out.replayed != (s.payment != "") || !s.named(&s.payment, out.id) {
			return false, s
		}
		if !out.replayed {
			s.status = "awaiting_payment"
		}
		return true, s
	case opGet:
		return out.code == 200 && out.status == s.status, s
	case opPay:
		switch {
		case out.code == 200 && s.payment != "" && s.status != "paid":
			s.status = "paid"
			return true, s
		case out.code == 409:
			return s.status == "paid", s
		}
		return false, s
	case opRefund:
		switch {
		case out.code == 201 && s.status == "paid" && out.replayed == (s.refund != ""):
			ok := s.named(&s.refund, out.id)
			return ok, s
		case out.code == 409 && out.id != "": // there is one
			ok := s.refund != "" && s.named(&s.refund, out.id)
			return ok, s
		case out.code == 409:
			return out.status != "paid" && out.status == s.status, s
		}
		return false, s
	case opGetRefund:
		ok := out.code == 200 && out.status == "pending" && s.refund != "" && s.named(&s.refund, in.id)
		return ok, s
	}
	return false, s
}

// lost is the state after an operation whose answer nobody got.
func lost(s known, in asked) known {
	switch {
	case in.op == opCreate && s.payment == "":
		s.payment, s.status = "?", "awaiting_payment"
	case in.op == opPay && s.payment != "":
		s.status = "paid"
	case in.op == opRefund && s.status == "paid" && s.refund == "":
		s.refund = "?"
	}
	return s
}

// named reports whether an id may be the one told, and notes it.
func (s *known) named(id *string, told string) bool {
	if *id == "" || *id == "?" {
		*id = told
	}
	return told != "" && *id == told
}

// TestModelRefuses shows that the model finds what it is for.
func TestModelRefuses(t *testing.T) {
	t.Parallel()
	created := answered{code: 201, id: "p", status: "awaiting_payment"}
	get := func(status string) answered { return answered{code: 200, status: status} }
	paid := answered{code: 200, status: "paid"}
	refund := func(id string) answered { return answered{code: 201, id: id, status: "pending"} }
	type op struct {
		op        string
		call, end int64
		out       answered
	}
	cut := answered{unknown: true}
	const never = math.MaxInt64
	for name, c := range map[string]struct {
		ok  bool
		ops []op
	}{
		"one after the other": {true, []op{
			{opCreate, 1, 2, created},
			{opGet, 3, 4, get("awaiting_payment")},
			{opPay, 7, 8, paid},
			{opGet, 9, 10, get("paid")},
			{opRefund, 11, 12, refund("r")},
			{opRefund, 13, 14, answered{code: 409, id: "r"}},
			{opRefund, 15, 16, answered{code: 201, id: "r", replayed: true}},
		}},
		"a read beside the change":      {true, []op{{opCreate, 1, 2, created}, {opPay, 3, 8, paid}, {opGet, 4, 5, get("paid")}, {opGet, 6, 7, get("paid")}}},
		"a read that goes back beside":  {false, []op{{opCreate, 1, 2, created}, {opPay, 3, 8, paid}, {opGet, 4, 5, get("paid")}, {opGet, 6, 7, get("awaiting_payment")}}},
		"a stale read":                  {false, []op{{opCreate, 1, 2, created}, {opPay, 3, 4, paid}, {opGet, 5, 6, get("awaiting_payment")}}},
		"a status that never was":       {false, []op{{opCreate, 1, 2, created}, {opGet, 3, 4, get("created")}}},
		"a payment that is gone":        {false, []op{{opCreate, 1, 2, created}, {opGet, 3, 4, answered{code: 404}}}},
		"paid by nobody":                {false, []op{{opCreate, 1, 2, created}, {opGet, 3, 4, get("paid")}}},
		"two payments under one key":    {false, []op{{opCreate, 1, 2, created}, {opCreate, 3, 4, answered{code: 201, id: "q", status: "awaiting_payment", replayed: true}}}},
		"two first answers":             {false, []op{{opCreate, 1, 3, created}, {opCreate, 2, 4, created}}},
		"a refund of what is not paid":  {false, []op{{opCreate, 1, 2, created}, {opRefund, 3, 4, refund("r")}}},
		"two refunds":                   {false, []op{{opCreate, 1, 2, created}, {opPay, 3, 4, paid}, {opRefund, 5, 7, refund("r")}, {opRefund, 6, 8, refund("s")}}},
		"a cut create, then its replay": {true, []op{{opCreate, 1, never, cut}, {opCreate, 3, 4, answered{code: 201, id: "p", status: "awaiting_payment", replayed: true}}}},
		"a cut create that never was":   {true, []op{{opCreate, 1, never, cut}, {opCreate, 3, 4, created}}},
		"a replay of nothing":           {false, []op{{opCreate, 3, 4, answered{code: 201, id: "p", status: "awaiting_payment", replayed: true}}}},
		"a cut refund comes late":       {true, []op{{opCreate, 1, 2, created}, {opPay, 3, 4, paid}, {opRefund, 5, never, cut}, {opRefund, 7, 8, answered{code: 409, id: "r"}}, {opGetRefund, 9, 10, answered{code: 200, status: "pending"}}}},
		"a cut refund beside a second":  {false, []op{{opCreate, 1, 2, created}, {opPay, 3, 4, paid}, {opRefund, 5, never, cut}, {opRefund, 7, 8, answered{code: 409, id: "r"}}, {opRefund, 9, 10, refund("s")}}},
	} {
		var history []porcupine.Operation
		for i, o := range c.ops {
			in := asked{op: o.op}
			if o.op == opGetRefund {
				in.id = "r"
			}
			history = append(history, porcupine.Operation{ClientId: i, Input: in, Call: o.call, Output: o.out, Return: o.end})
		}
		if got := porcupine.CheckOperations(paymentModel(), history); got != c.ok {
			t.Errorf("%s: linearizable: %v, want %v", name, got, c.ok)
		}
	}
}

// clients drive one server after the other, or the nodes of a cluster, and write down
// what they see.
type clients struct {
	t     *testing.T
	start time.Time
	all   sync.WaitGroup
	rest  time.Duration // after an answer of a cluster, and ten times as long where there was none

	mu       sync.Mutex
	turn     *sync.Cond // a new server answers, or all is over
	servers  []*server
	lives    int // servers there have been
	over     bool
	payments []known // from the answers, for the next questions
	history  []porcupine.Operation
	answers  []int // of each server
}

// newClients are clients that work on so many payments.
func newClients(t *testing.T, payments, servers int) *clients {
	c := &clients{
		t: t, start: time.Now(), payments: make([]known, payments), servers: make([]*server, servers), answers: make([]int, servers),
	}
	c.turn = sync.NewCond(&c.mu)
	return c
}

// TestLinearizable lets clients work on the same payments while the server is
// killed and started again, and has porcupine look for an order in which a
// single client would have seen the same.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	const workers, payments, lives, opsPerLife = 8, 32, 5, 300
	dir := t.TempDir() + "/data"
	c := newClients(t, payments, 1)
	s := start(t, "demo", "--data", dir)
	c.next(0, s)
	c.begin(workers, 7)
	for life := 1; life <= lives; life++ {
		eventually(t, "operations are made", func() bool { return c.done() >= life*opsPerLife })
		if life < lives {
			s.kill()
			s = start(t, "demo", "--data", dir)
			c.next(0, s)
		}
	}
	c.end()
	c.check()
}

// begin lets so many clients work until end.
func (c *clients) begin(workers int, seed uint64) {
	for w := range workers {
		c.all.Go(func() { c.work(w, rand.New(rand.NewPCG(uint64(w), seed))) })
	}
}

func (c *clients) end() {
	c.mu.Lock()
	c.over = true
	c.turn.Broadcast()
	c.mu.Unlock()
	c.all.Wait()
}

// check has porcupine judge the history, and makes sure that it would notice.
func (c *clients) check() {
	unknown, byOp := 0, map[string]int{}
	for _, o := range c.history {
		byOp[fmt.Sprint(o.Input.(asked).op, " ", o.Output.(answered).code)]++
		if o.Output.(answered).unknown {
			unknown++
		}
	}
	c.t.Logf("%d operations, %d without an answer: %v", len(c.history), unknown, byOp)
	for what := range byOp {
		if strings.HasSuffix(what, " 500") { // porcupine would need minutes to refute it
			c.t.Fatalf("an answer is an internal error: %s", what)
		}
	}
	history := earliestLost(c.history)
	if result := porcupine.CheckOperationsTimeout(paymentModel(), history, patience); result != porcupine.Ok {
		for n := range c.payments {
			if one := of(history, n); porcupine.CheckOperationsTimeout(paymentModel(), one, patience) != porcupine.Ok {
				for _, o := range one {
					c.t.Logf("client %d, %v to %v: %+v %+v", o.ClientId, time.Duration(o.Call), time.Duration(o.Return), o.Input, o.Output)
				}
				break
			}
		}
		c.t.Fatalf("the history is not linearizable: %s", result)
	}
	c.control(history)
}

// earliestLost leaves out the operations without an answer that tell nothing: reads,
// and of each payment all but the one of each kind that was asked for first. Whatever a
// later one may have done, that one may have done at the same time, and none of them
// does anything after another.
func earliestLost(history []porcupine.Operation) (rest []porcupine.Operation) {
	first := map[asked]int{} // index in rest
	for _, o := range history {
		in := o.Input.(asked)
		i, known := first[in]
		switch {
		case !o.Output.(answered).unknown:
			rest = append(rest, o)
		case in.op == opGet, in.op == opGetRefund:
		case !known:
			first[in] = len(rest)
			rest = append(rest, o)
		case o.Call < rest[i].Call:
			rest[i] = o
		}
	}
	return rest
}

// of is the history of one payment.
func of(history []porcupine.Operation, payment int) (one []porcupine.Operation) {
	for _, o := range history {
		if o.Input.(asked).payment == payment {
			one = append(one, o)
		}
	}
	return one
}

// control spoils the history that was found in order and must be noticed. The first
// flaw is what a client would see of a node that answers from an old file.
func (c *clients) control(history []porcupine.Operation) {
	end := time.Since(c.start).Nanoseconds()
	for n, p := range c.payments {
		if p.refund == "" {
			continue
		}
		one := of(history, n)
		for _, bad := range []porcupine.Operation{
			{Input: asked{op: opGet, payment: n}, Output: answered{code: 200, status: "awaiting_payment"}},
			{Input: asked{op: opRefund, payment: n}, Output: answered{code: 201, id: "another", status: "pending"}},
			{Input: asked{op: opGet, payment: n}, Output: answered{code: 404}},
		} {
			bad.Call, bad.Return = end, end+1
			if porcupine.CheckOperations(paymentModel(), append(slices.Clip(one), bad)) {
				c.t.Errorf("after all: %+v was not noticed", bad)
			}
		}
		return
	}
	c.t.Error("no payment was refunded")
}

// next puts a server in the place of an earlier one.
func (c *clients) next(i int, s *server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[i], c.lives = s, c.lives+1
	c.turn.Broadcast()
}

func (c *clients) done() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.history)
}

// work asks questions until all is over, each of any server. After a broken connection
// it waits for the next server where there is one alone.
func (c *clients) work(client int, r *rand.Rand) {
	for {
		c.mu.Lock()
		at := r.IntN(len(c.servers))
		s, life, over := c.servers[at], c.lives, c.over
		in := c.choose(r)
		p := c.payments[in.payment]
		c.mu.Unlock()
		if over {
			return
		}
		call := time.Since(c.start).Nanoseconds()
		out := ask(s, in, p.payment)
		end := time.Since(c.start).Nanoseconds()
		if out.unknown {
			end = math.MaxInt64
		}
		c.mu.Lock()
		c.history = append(c.history, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end})
		c.learn(in, out)
		rest := c.rest
		if out.unknown {
			rest *= 10
		} else {
			c.answers[at]++
		}
		for out.unknown && len(c.servers) == 1 && c.lives == life && !c.over {
			c.turn.Wait()
		}
		c.mu.Unlock()
		time.Sleep(rest)
	}
}

// choose picks a question that can be asked with the answers so far. New payments
// are taken up as operations are made, so that every life has some.
func (c *clients) choose(r *rand.Rand) asked {
	n := min(len(c.payments), 3+len(c.history)/40)
	in := asked{op: opCreate, payment: n - 1 - r.IntN(min(n, 6))}
	p := c.payments[in.payment]
	if p.payment == "" {
		return in
	}
	switch k := r.IntN(20); {
	case k < 1:
	case k < 3:
		in.op = opPay
	case k < 8:
		in.op = opRefund
	case k < 11 && p.refund != "":
		in.op, in.id = opGetRefund, p.refund
	default:
		in.op = opGet
	}
	return in
}

func (c *clients) learn(in asked, out answered) {
	p := &c.payments[in.payment]
	switch {
	case out.unknown || out.id == "":
	case in.op == opCreate:
		p.payment = out.id
	case in.op == opRefund:
		p.refund = out.id
	}
}

// ask makes the request. Everything that is no answer to the question counts
// as a connection that broke; so does 425, where the router did not get to the payment.
func ask(s *server, in asked, payment string) answered {
	key := fmt.Sprintf("%08x-0000-4000-8000-000000000000", in.payment)
	var a answer
	var err error
	switch in.op {
	case opCreate:
		a, err = s.send("POST", "/v1/payments", `{"amount":"1500.00"}`, "Idempotency-Key", key)
	case opGet:
		a, err = s.send("GET", "/v1/payments/"+payment, "")
	case opPay:
		a, err = s.send("POST", "/v1/sandbox/payments/"+payment, `{"outcome":"paid"}`)
	case opRefund:
		var header []string // half of them are asked for without a key: they are refused when there is one
		if in.payment%2 == 0 {
			header = []string{"Idempotency-Key", "f" + key[1:]}
		}
		a, err = s.send("POST", "/v1/refunds", fmt.Sprintf(`{"payment_id":%q}`, payment), header...)
	case opGetRefund:
		a, err = s.send("GET", "/v1/refunds/"+in.id, "")
	}
	if err != nil || a.Status == 503 || a.Status == 425 {
		return answered{unknown: true}
	}
	var o struct {
		ID            string `json:"id"`
		Status        any    `json:"status"` // a number in a problem
		RefundID      string `json:"refund_id"`
		PaymentStatus string `json:"payment_status"`
	}
	if err := json.Unmarshal(a.Body, &o); err != nil {
		return answered{code: a.Status}
	}
	out := answered{code: a.Status, id: o.ID, replayed: a.Header.Get("Idempotent-Replayed") == "true"}
	out.status, _ = o.Status.(string)
	if a.Status == 409 {
		out.id, out.status = o.RefundID, o.PaymentStatus
	}
	return out
}
