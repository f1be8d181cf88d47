package bench

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// work is what a run does over and over. It is bound to each connection, whose
// operations then run one at a time. An operation's error is a *refused when
// the server answered otherwise than it should, or the connection's end.
type work func(t *target, c *client) (op func() error)

// acked is a payment that a server has acknowledged, and the idempotency key
// it was made with.
type acked struct {
	key [36]byte
	id  id
}

// book holds the acknowledged payments of one server. Each connection writes
// a page of its own.
type book struct {
	mu    sync.Mutex
	pages []*[]acked
}

func (b *book) page() *[]acked {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := new([]acked)
	b.pages = append(b.pages, p)
	return p
}

// all lists every payment; no connection may be writing.
func (b *book) all() []acked {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []acked
	for _, p := range b.pages {
		all = append(all, *p...)
	}
	return all
}

// newest lists the last payment of each connection.
func (b *book) newest() []id {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []id
	for _, p := range b.pages {
		if n := len(*p); n > 0 {
			ids = append(ids, (*p)[n-1].id)
		}
	}
	return ids
}

const paymentsPath = "/v1/payments"

// paymentBody is the body of every payment.
const paymentBody = `{"amount":"1500.00","description":"order-1042","payload":{"cart":7,"customer":"c-8841"}}`

// request writes a request, without an idempotency key if it has none.
func (t *target) request(method, path, key, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s:%s\r\n", method, path, t.addr, t.Project, t.Key)
	if key != "" {
		fmt.Fprintf(&b, "Idempotency-Key: %s\r\n", key)
	}
	if body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

// blank stands in a request for what changes with each.
type blank struct {
	request []byte
	at      int
}

func (t *target) blankKey(path, body string) blank {
	const key = "00000000-0000-4000-8000-000000000000"
	r := t.request("POST", path, key, body)
	return blank{r, bytes.Index(r, []byte(key))}
}

func (t *target) blankID(method, path, body string) blank {
	const zero = "00000000000000000000000000"
	r := t.request(method, strings.Replace(path, "%s", zero, 1), "", strings.Replace(body, "%s", zero, 1))
	return blank{r, bytes.Index(r, []byte(zero))}
}

func (b blank) with(value []byte) []byte {
	copy(b.request[b.at:], value)
	return b.request
}

// newKey draws a UUID.
func (c *client) newKey() (key [36]byte) {
	var raw [16]byte
	_, _ = c.random.Read(raw[:]) // it never fails
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	hex.Encode(key[:8], raw[:4])
	hex.Encode(key[9:13], raw[4:6])
	hex.Encode(key[14:18], raw[6:8])
	hex.Encode(key[19:23], raw[8:10])
	hex.Encode(key[24:], raw[10:])
	key[8], key[13], key[18], key[23] = '-', '-', '-', '-'
	return key
}

// create makes payments, each under a key of its own, and keeps them in the
// book.
func create(b *book) work {
	return func(t *target, c *client) func() error {
		one := creation(t, c, b.page())
		return func() error {
			_, err := one()
			return err
		}
	}
}

func creation(t *target, c *client, page *[]acked) func() (id, error) {
	r := t.blankKey(paymentsPath, paymentBody)
	return func() (id, error) {
		key := c.newKey()
		a, err := c.do(r.with(key[:]))
		if err != nil {
			return id{}, err
		}
		made, ok := a.id()
		if a.status != 201 || !ok {
			return id{}, refuse("creating a payment", a)
		}
		*page = append(*page, acked{key, made})
		return made, nil
	}
}

// get reads payments in a random order.
func get(from []acked) work {
	return func(t *target, c *client) func() error {
		r := t.blankID("GET", paymentsPath+"/%s", "")
		return func() error {
			p := from[c.random.Uint64()%uint64(len(from))]
			a, err := c.do(r.with(p.id[:]))
			if err != nil {
				return err
			}
			if got, ok := a.id(); a.status != 200 || !ok || got != p.id {
				return refuse("reading a payment", a)
			}
			return nil
		}
	}
}

// replay sends requests that made a payment again.
func replay(from []acked) work {
	return func(t *target, c *client) func() error {
		r := t.blankKey(paymentsPath, paymentBody)
		return func() error {
			p := from[c.random.Uint64()%uint64(len(from))]
			a, err := c.do(r.with(p.key[:]))
			if err != nil {
				return err
			}
			if got, ok := a.id(); a.status != 201 || !ok || got != p.id || string(a.header("Idempotent-Replayed")) != "true" {
				return refuse("repeating a request", a)
			}
			return nil
		}
	}
}

// pay makes payments and has the sandbox pay them, once they have a route:
// three events each.
func pay(b *book) work {
	return func(t *target, c *client) func() error {
		one := payment(t, c, b)
		return func() error {
			_, err := one()
			return err
		}
	}
}

func payment(t *target, c *client, b *book) func() (id, error) {
	one := creation(t, c, b.page())
	paid := t.blankID("POST", "/v1/sandbox/payments/%s", `{"outcome":"paid"}`)
	return func() (id, error) {
		p, err := one()
		if err != nil {
			return p, err
		}
		a, err := c.do(paid.with(p[:]))
		if err == nil && a.status != 200 {
			err = refuse("paying a payment", a)
		}
		return p, err
	}
}

// life leads payments through all there is: created, routed, paid, refund
// created, refund succeeded: five events each.
func life(b *book) work {
	return func(t *target, c *client) func() error {
		one := payment(t, c, b)
		refund := refunding(t, c)
		done := t.blankID("POST", "/v1/sandbox/refunds/%s", `{"outcome":"succeeded"}`)
		return func() error {
			p, err := one()
			if err != nil {
				return err
			}
			r, err := refund(p)
			if err != nil {
				return err
			}
			a, err := c.do(done.with(r[:]))
			if err == nil && a.status != 200 {
				err = refuse("settling a refund", a)
			}
			return err
		}
	}
}

func refunding(t *target, c *client) func(id) (id, error) {
	r := t.blankID("POST", "/v1/refunds", `{"payment_id":"%s"}`)
	return func(p id) (id, error) {
		a, err := c.do(r.with(p[:]))
		if err != nil {
			return id{}, err
		}
		made, ok := a.id()
		if a.status != 201 || !ok {
			return id{}, refuse("creating a refund", a)
		}
		return made, nil
	}
}

// refund refunds payments that are paid, each once, until there are no more:
// then the connection rests.
func refund(paid []acked) work {
	var next atomic.Int64
	return func(t *target, c *client) func() error {
		one := refunding(t, c)
		return func() error {
			n := next.Add(1)
			if n > int64(len(paid)) {
				return errDone
			}
			_, err := one(paid[n-1].id)
			return err
		}
	}
}

// errDone says that there is nothing left to do.
var errDone = errors.New("nothing is left to do")
