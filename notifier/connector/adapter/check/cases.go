package check

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"payledger/notifier/connector"
	"payledger/notifier/connector/adapter"
	"payledger/notifier/connector/client"
)

// oneCase is a rule and the test of it.
type oneCase struct {
	name, rule string
	judge      func(*judge) error
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

func begins(j *judge) error {
	a := j.attempt()
	first, err := j.begin(a, connector.Open)
	if err != nil {
		return err
	}
	a.Reference = first.Reference
	_, err = j.read(a, connector.Open)
	return err
}

// same begins an attempt again and expects the reference.
func (j *judge) same(a connector.Attempt, reference string) error {
	a.Reference = ""
	s, err := j.begin(a, connector.Open)
	if err == nil && s.Reference != reference {
		err = fmt.Errorf("the same key has made %q and %q", reference, s.Reference)
	}
	return err
}

// atOnce is how many equal calls come at the same time.
const atOnce = 8

// together does the same eight times at once, and expects the same reference.
func together(do func() (reference string, err error)) (string, error) {
	var all sync.WaitGroup
	var got [atOnce]string
	var errs [atOnce]error
	for n := range atOnce {
		all.Go(func() { got[n], errs[n] = do() })
	}
	all.Wait()
	for n, err := range errs { // they say the same
		switch {
		case err != nil:
			return "", err
		case got[n] != got[0]:
			return "", fmt.Errorf("the same key or refund id has made %q and %q", got[0], got[n])
		}
	}
	return got[0], nil
}

func beginsAgain(j *judge) error {
	a := j.attempt()
	reference, err := together(func() (string, error) {
		s, err := j.begin(a, connector.Open)
		return s.Reference, err
	})
	if err != nil {
		return err
	}
	return j.same(a, reference)
}

func beginsAfterLostAnswer(j *judge) error {
	a := j.attempt()
	body, err := adapter.Encode(adapter.Begin, a, nil, "")
	if err != nil {
		return err
	}
	for range 2 {
		_, _ = j.send(message{path: adapter.Begin, body: body, leave: true}) // its answer is lost
	}
	s, err := j.begin(a, connector.Open)
	if err != nil {
		return err
	}
	return j.same(a, s.Reference)
}

func beginsByKey(j *judge) error {
	one, err := j.begun()
	if err != nil {
		return err
	}
	two, err := j.begun()
	if err == nil && one.Reference == two.Reference {
		err = fmt.Errorf("two keys have one reference, %q", one.Reference)
	}
	return err
}

func refusesOtherAmount(j *judge) error {
	a, err := j.begun()
	if err != nil {
		return err
	}
	amount, currency := a, a
	amount.Amount++
	currency.Currency = "XTS"
	for what, other := range map[string]connector.Attempt{"amount": amount, "currency": currency} {
		other.Reference = ""
		s, err := j.begin(other, connector.Open, connector.Closed, connector.Paid)
		if _, refused := errors.AsType[*connector.RefusedError](err); !refused {
			return fmt.Errorf("another %s: answered %+v, %w; want 422 refused", what, s, err)
		}
	}
	return j.same(a, a.Reference)
}

func knowsNoOther(j *judge) error {
	a := j.attempt()
	a.Reference = "unknown-" + a.Key
	for name, do := range map[adapter.Call]call{adapter.Read: j.adapter.Read, adapter.Cancel: j.adapter.Cancel} {
		if _, err := j.state(name, do, a); !errors.Is(err, connector.ErrNotFound) {
			return fmt.Errorf("an unknown reference: %w; want 404 not_found", err)
		}
	}
	if s, err := j.refund(j.refundOf(a)); err == nil && s.Phase != connector.Closed {
		return fmt.Errorf("the refund of an unknown reference is %s", s.Phase)
	}
	return nil
}

func knowsNoOtherPayments(j *judge) error {
	other, err := j.begun()
	if err != nil {
		return err
	}
	a := j.attempt()
	a.Reference = other.Reference
	for name, do := range map[adapter.Call]call{adapter.Read: j.adapter.Read, adapter.Cancel: j.adapter.Cancel} {
		if _, err := j.state(name, do, a); !errors.Is(err, connector.ErrNotFound) {
			return fmt.Errorf("a reference of another payment: %w; want 404 not_found", err)
		}
	}
	_, err = j.read(other, connector.Open)
	return err
}

func cancels(j *judge) error {
	a, err := j.begun()
	if err != nil {
		return err
	}
	s, err := j.cancel(a, connector.Closed, connector.Open)
	if err != nil || s.Phase == connector.Open { // the provider cannot
		return err
	}
	for _, again := range []func(connector.Attempt, ...connector.Phase) (connector.State, error){j.cancel, j.read, j.begin} {
		if _, err := again(a, connector.Closed); err != nil {
			return fmt.Errorf("after it was cancelled: %w", err)
		}
	}
	return nil
}

func signsAnswers(j *judge) error {
	a, err := j.begun()
	if err != nil {
		return err
	}
	unknown := a
	unknown.Reference = "unknown"
	for status, asked := range map[int]connector.Attempt{http.StatusOK: a, http.StatusNotFound: unknown} {
		body, err := adapter.Encode(adapter.Read, asked, nil, "")
		if err != nil {
			return err
		}
		got, err := j.send(message{path: adapter.Read, body: body})
		if err != nil {
			return err
		}
		if got.status != status {
			return fmt.Errorf("read answers with status %d, want %d", got.status, status)
		}
		if err := j.signedAnswer(got); err != nil {
			return fmt.Errorf("the answer with status %d: %w", status, err)
		}
	}
	return nil
}

// forging refuses to cancel an attempt, since the call is altered so.
func (j *judge) forging(status int, messages func(a connector.Attempt, body []byte) map[string]message) error {
	a, err := j.begun()
	if err != nil {
		return err
	}
	body, err := adapter.Encode(adapter.Cancel, a, nil, "")
	if err != nil {
		return err
	}
	for what, m := range messages(a, body) {
		if err := j.refused(what, m, status, a); err != nil {
			return err
		}
	}
	return nil
}

func refusesUnsigned(j *judge) error {
	return j.forging(http.StatusUnauthorized, func(_ connector.Attempt, body []byte) map[string]message {
		return map[string]message{"a call without signature": {path: adapter.Cancel, body: body, bare: true}}
	})
}

func refusesForged(j *judge) error {
	other, err := client.NewKeys("whsec_bm90IHRoZSBzZWNyZXQgb2YgYW55IGFkYXB0ZXIh")
	if err != nil {
		return err
	}
	return j.forging(http.StatusUnauthorized, func(a connector.Attempt, body []byte) map[string]message {
		harmless := bytes.Replace(body, []byte(a.Reference), []byte("another"), 1)
		return map[string]message{
			"a call signed with another secret":  {path: adapter.Cancel, body: body, keys: other},
			"a call altered after it was signed": {path: adapter.Cancel, body: harmless, altered: body},
		}
	})
}

func refusesStale(j *judge) error {
	return j.forging(http.StatusUnauthorized, func(_ connector.Attempt, body []byte) map[string]message {
		return map[string]message{
			"a call of six minutes ago":     {path: adapter.Cancel, body: body, late: -6 * time.Minute},
			"a call of six minutes to come": {path: adapter.Cancel, body: body, late: 6 * time.Minute},
		}
	})
}

func refusesOtherPath(j *judge) error {
	a, err := j.begun()
	if err != nil {
		return err
	}
	body, err := adapter.Encode(adapter.Read, a, nil, "")
	if err != nil {
		return err
	}
	// An adapter may also go by the body alone, and answer the call that it is.
	if _, err := j.send(message{path: adapter.Cancel, body: body}); err != nil {
		return err
	}
	_, err = j.read(a, connector.Open)
	return err
}

func refusesMalformed(j *judge) error {
	return j.forging(0, func(connector.Attempt, []byte) map[string]message {
		return map[string]message{
			"an empty body":  {path: adapter.Cancel},
			"half an object": {path: adapter.Cancel, body: []byte(`{"call":"cancel","attempt":{`)},
			"a list":         {path: adapter.Cancel, body: []byte(`[]`)},
			"no attempt":     {path: adapter.Cancel, body: []byte(`{"call":"cancel"}`)},
		}
	})
}

func refusesLarge(j *judge) error {
	a, err := j.begun()
	if err != nil {
		return err
	}
	body, err := adapter.Encode(adapter.Cancel, a, nil, "")
	if err != nil {
		return err
	}
	const size = 2 << 20
	body = append(bytes.Repeat([]byte(" "), size), body...)
	// Hanging up is an answer too.
	if got, err := j.send(message{path: adapter.Cancel, body: body}); err == nil && got.status < http.StatusBadRequest {
		return fmt.Errorf("it is answered with status %d, want 413", got.status)
	}
	_, err = j.read(a, connector.Open)
	return err
}

func ignoresNewMembers(j *judge) error {
	a := j.attempt()
	body, err := adapter.Encode(adapter.Begin, a, nil, "")
	if err != nil {
		return err
	}
	body = bytes.Replace(body, []byte(`"attempt":{`), []byte(`"new":{"a":[1]},"attempt":{"new":null,`), 1)
	got, err := j.send(message{path: adapter.Begin, body: body})
	if err != nil {
		return err
	}
	if got.status != http.StatusOK {
		return fmt.Errorf("begin with members that are not known yet answers with status %d, want 200", got.status)
	}
	_, err = j.begin(a, connector.Open)
	return err
}
