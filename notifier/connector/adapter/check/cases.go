package check

import (
	"bytes"
	"errors"
	"net/http"
	"sync"
	"time"

	"payledger/notifier/connector"
	"payledger/notifier/connector/adapter"
	"payledger/notifier/connector/client"
)

// oneCase is a rule and the test of it, which ends at the first thing that is wrong: see must and fail.
type oneCase struct {
	name, rule string
	judge      func(*judge)
}

// cases are all rules, in the order in which they are judged.
func cases() []oneCase {
	return []oneCase{
		{"begin", "begin answers an open attempt, and read the same", begins},
		{"begin-again", "the same key gives the same attempt, also when it comes eight times at once", beginsAgain},
		{"begin-lost", "a key whose answer was lost gives the same attempt", beginsAfterLostAnswer},
		{"begin-other-key", "another key gives another attempt", beginsByKey},
		{"begin-other-amount", "the same key with another amount or currency is refused", refusesOtherAmount},
		{"unknown", "an unknown reference is not_found, signed", knowsNoOther},
		{"other-payment", "a reference of another payment is not_found", knowsNoOtherPayments},
		{"cancel", "a cancelled attempt is closed for good, and may be cancelled again", cancels},
		{"answers", "answers are signed, with the webhook-id of the call", signsAnswers},
		{"unsigned", "a call without signature is answered with 401", refusesUnsigned},
		{"forged", "a call that another secret signed, or that was altered, is answered with 401", refusesForged},
		{"stale", "a call of six minutes ago, or ahead, is answered with 401", refusesStale},
		{"other-path", "a call does nothing at the path of another call", refusesOtherPath},
		{"malformed", "a signed body that is no call is answered with 400 to 499", refusesMalformed},
		{"too-large", "a body of 2 MiB is not read to its end", refusesLarge},
		{"new-members", "members that are not known yet are ignored", ignoresNewMembers},
		{"refund-unpaid", "no money is returned that was not collected", refundsNothing},
		{"paid", "a paid attempt is read with the amount that was asked for, by every call", readsPaid},
		{"declined", "after a decline the attempt is closed or open, and says so", readsDeclined},
		{"cancel-paid", "a paid attempt stays paid when it is cancelled", cancelsTooLate},
		{"refund", "the same refund id returns the money once, also when it comes eight times at once", refundsOnce},
		{"refund-lost", "a refund whose answer was lost is found again, and listed by read", refundsAfterLostAnswer},
		{"refund-other", "another refund id does not return the money again", refundsNoSecond},
		{"refund-amount", "a refund of another amount than was collected is refused", refusesOtherRefund},
		{"refund-returned", "a refund whose money came back is closed, and leaves the money to another refund", refundsAfterReturn},
		{"dispute", "a paid attempt whose money is disputed stays paid, and read lists the dispute until it is won or lost", tellsOfDisputes},
	}
}

func begins(j *judge) {
	must(j.read(j.begun(), connector.Open))
}

// same begins an attempt again and expects the reference.
func (j *judge) same(a connector.Attempt, reference string) {
	a.Reference = ""
	if s := must(j.begin(a, connector.Open)); s.Reference != reference {
		fail("the same key has made %q and %q", reference, s.Reference)
	}
}

// atOnce is how many equal calls come at the same time.
const atOnce = 8

// together does the same eight times at once, and expects the same reference.
func together(do func() (reference string)) string {
	var all sync.WaitGroup
	var got [atOnce]string
	var errs [atOnce]error
	for n := range atOnce {
		all.Go(func() { errs[n] = try(func() { got[n] = do() }) })
	}
	all.Wait()
	for n, err := range errs { // they say the same
		if must(got[n], err) != got[0] {
			fail("the same key or refund id has made %q and %q", got[0], got[n])
		}
	}
	return got[0]
}

func beginsAgain(j *judge) {
	a := j.attempt()
	j.same(a, together(func() string { return must(j.begin(a, connector.Open)).Reference }))
}

func beginsAfterLostAnswer(j *judge) {
	a := j.attempt()
	for range 2 {
		_, _ = j.send(message{path: adapter.Begin, body: encoded(adapter.Begin, a), leave: true}) // its answer is lost
	}
	j.same(a, must(j.begin(a, connector.Open)).Reference)
}

func beginsByKey(j *judge) {
	if one, two := j.begun(), j.begun(); one.Reference == two.Reference {
		fail("two keys have one reference, %q", one.Reference)
	}
}

func refusesOtherAmount(j *judge) {
	a := j.begun()
	amount, currency := a, a
	amount.Amount++
	currency.Currency = "XTS"
	for what, other := range map[string]connector.Attempt{"amount": amount, "currency": currency} {
		other.Reference = ""
		s, err := j.begin(other, connector.Open, connector.Closed, connector.Paid)
		if err == nil {
			fail("another %s: begin answers %s; want 422 refused", what, s.Phase)
		}
		if _, refused := errors.AsType[*connector.RefusedError](err); !refused {
			fail("another %s: %w; want 422 refused", what, err)
		}
	}
	j.same(a, a.Reference)
}

// notFound wants an attempt neither read nor cancelled, because there is none of its reference.
func (j *judge) notFound(what string, a connector.Attempt) {
	for name, do := range map[adapter.Call]call{adapter.Read: j.adapter.Read, adapter.Cancel: j.adapter.Cancel} {
		if _, err := j.state(name, do, a); !errors.Is(err, connector.ErrNotFound) {
			fail("%s: %w; want 404 not_found", what, err)
		}
	}
}

func knowsNoOther(j *judge) {
	a := j.attempt()
	a.Reference = "unknown-" + a.Key
	j.notFound("an unknown reference", a)
	var s connector.RefundState
	if err := try(func() { s = j.refund(j.refundOf(a)) }); err == nil && s.Phase != connector.Closed { // any error does
		fail("the refund of an unknown reference is %s", s.Phase)
	}
}

func knowsNoOtherPayments(j *judge) {
	other, a := j.begun(), j.attempt()
	a.Reference = other.Reference
	j.notFound("a reference of another payment", a)
	must(j.read(other, connector.Open))
}

func cancels(j *judge) {
	a := j.begun()
	if must(j.cancel(a, connector.Closed, connector.Open)).Phase == connector.Open { // the provider cannot
		return
	}
	for _, again := range []func(connector.Attempt, ...connector.Phase) (connector.State, error){j.cancel, j.read, j.begin} {
		if _, err := again(a, connector.Closed); err != nil {
			fail("after it was cancelled: %w", err)
		}
	}
}

func signsAnswers(j *judge) {
	a := j.begun()
	unknown := a
	unknown.Reference = "unknown"
	for status, asked := range map[int]connector.Attempt{http.StatusOK: a, http.StatusNotFound: unknown} {
		got := must(j.send(message{path: adapter.Read, body: encoded(adapter.Read, asked)}))
		if got.status != status {
			fail("read answers with status %d, want %d", got.status, status)
		}
		if err := j.signedAnswer(got); err != nil {
			fail("the answer with status %d: %w", status, err)
		}
	}
}

// forging refuses to cancel an attempt, since the call is altered so.
func (j *judge) forging(status int, messages func(a connector.Attempt, body []byte) map[string]message) {
	a := j.begun()
	for what, m := range messages(a, encoded(adapter.Cancel, a)) {
		j.refused(what, m, status, a)
	}
}

func refusesUnsigned(j *judge) {
	j.forging(http.StatusUnauthorized, func(_ connector.Attempt, body []byte) map[string]message {
		return map[string]message{"a call without signature": {path: adapter.Cancel, body: body, bare: true}}
	})
}

func refusesForged(j *judge) {
	other := must(client.NewKeys("whsec_bm90IHRoZSBzZWNyZXQgb2YgYW55IGFkYXB0ZXIh"))
	j.forging(http.StatusUnauthorized, func(a connector.Attempt, body []byte) map[string]message {
		harmless := bytes.Replace(body, []byte(a.Reference), []byte("another"), 1)
		return map[string]message{
			"a call signed with another secret":  {path: adapter.Cancel, body: body, keys: other},
			"a call altered after it was signed": {path: adapter.Cancel, body: harmless, altered: body},
		}
	})
}

func refusesStale(j *judge) {
	j.forging(http.StatusUnauthorized, func(_ connector.Attempt, body []byte) map[string]message {
		return map[string]message{
			"a call of six minutes ago":     {path: adapter.Cancel, body: body, late: -6 * time.Minute},
			"a call of six minutes to come": {path: adapter.Cancel, body: body, late: 6 * time.Minute},
		}
	})
}

func refusesOtherPath(j *judge) {
	a := j.begun()
	// An adapter may also go by the body alone, and answer the call that it is.
	must(j.send(message{path: adapter.Cancel, body: encoded(adapter.Read, a)}))
	must(j.read(a, connector.Open))
}

func refusesMalformed(j *judge) {
	j.forging(0, func(connector.Attempt, []byte) map[string]message {
		return map[string]message{
			"an empty body":  {path: adapter.Cancel},
			"half an object": {path: adapter.Cancel, body: []byte(`{"call":"cancel","attempt":{`)},
			"a list":         {path: adapter.Cancel, body: []byte(`[]`)},
			"no attempt":     {path: adapter.Cancel, body: []byte(`{"call":"cancel"}`)},
		}
	})
}

func refusesLarge(j *judge) {
	a := j.begun()
	const size = 2 << 20
	body := append(bytes.Repeat([]byte(" "), size), encoded(adapter.Cancel, a)...)
	// Hanging up is an answer too.
	if got, err := j.send(message{path: adapter.Cancel, body: body}); err == nil && got.status < http.StatusBadRequest {
		fail("it is answered with status %d, want 413", got.status)
	}
	must(j.read(a, connector.Open))
}

func ignoresNewMembers(j *judge) {
	a := j.attempt()
	body := bytes.Replace(encoded(adapter.Begin, a), []byte(`"attempt":{`), []byte(`"new":{"a":[1]},"attempt":{"new":null,`), 1)
	if got := must(j.send(message{path: adapter.Begin, body: body})); got.status != http.StatusOK {
		fail("begin with members that are not known yet answers with status %d, want 200", got.status)
	}
	must(j.begin(a, connector.Open))
}
