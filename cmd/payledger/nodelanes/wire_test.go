package nodelanes

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"payledger/cmd/payledger/members"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/delivery"
)

func TestQuestionsAndAnswersArriveAsTheyWereSent(t *testing.T) {
	id, at := domain.ID{1, 2, 3}, domain.Instant(1_700_000_000_123)
	for _, q := range []question{
		{Op: opList, Filter: domain.DeliveryFilter{Project: "p", Endpoint: "we_1", State: domain.DeliveryPending, After: "x", Limit: 7}},
		{Op: opList, Filter: domain.DeliveryFilter{Event: id, Payment: id, Limit: 1}},
		{Op: opRecover, Project: "p", Endpoint: "we_1", Since: at},
		{Op: opResend, Project: "p", Endpoint: "we_1", Event: id},
	} {
		b, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		var got question
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if diff := cmp.Diff(q, got); diff != "" {
			t.Errorf("%s: %s", b, diff)
		}
	}
	failed := domain.AttemptObject{At: at, Status: 500, Error: "status", DurationMS: 3, Answer: "no <html> \x00"}
	for _, a := range []answer{
		{Delivery: domain.DeliveryObject{EventID: id, EndpointID: "we_1", Type: domain.KindEndpointTest, State: domain.DeliveryPending, CreatedAt: at, NextAttemptAt: &at, Attempts: []domain.AttemptObject{}}},
		{Page: domain.DeliveryPage{After: "x", Deliveries: []domain.DeliveryObject{{EventID: id, PaymentID: &id, Sequence: 3, Position: 9, Attempts: []domain.AttemptObject{failed}}}}},
		{Health: domain.EndpointHealth{Pending: 1, Undelivered: 2, FailingSince: &at, OpenUntil: &at, LastFailure: &failed}},
		{Enqueued: 4},
		{Pending: 5, Undelivered: 6},
	} {
		b, err := encode(a, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(b)
		if diff := cmp.Diff(a, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", b, err, diff)
		}
	}
}

func TestErrorsArriveAsTheyWereSent(t *testing.T) {
	refusal := &domain.Refusal{Code: domain.DeliverySupersededCode, EventID: domain.ID{7}}
	for _, c := range []struct {
		sent error
		want func(error) bool
	}{
		{refusal, func(err error) bool {
			got, ok := errors.AsType[*domain.Refusal](err)
			return ok && *got == *refusal
		}},
		{eventstore.ErrFull, func(err error) bool { return errors.Is(err, eventstore.ErrFull) }},
		{errors.New("the file failed"), func(err error) bool {
			return errors.Is(err, members.ErrNoAnswer) && strings.Contains(err.Error(), "the file failed")
		}},
	} {
		b, err := encode(answer{}, c.sent)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(b); !c.want(err) {
			t.Errorf("%v arrived as %v", c.sent, err)
		}
	}
	if _, err := decode([]byte("{")); !errors.Is(err, members.ErrNoAnswer) {
		t.Errorf("half an answer is %v", err)
	}
}

// TestLongListIsAnsweredInPart: the answer fits into a message, and its cursor is that
// of its last row.
func TestLongListIsAnsweredInPart(t *testing.T) {
	list := func(q question) (a answer, err error) {
		for range q.Filter.Limit {
			a.Page.Deliveries = append(a.Page.Deliveries, domain.DeliveryObject{
				Attempts: []domain.AttemptObject{{Answer: strings.Repeat("x", 8<<10)}},
			})
		}
		a.Page.After = strings.Repeat("i", q.Filter.Limit)
		return a, nil
	}
	asked := func(q question) []byte {
		b, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b, err := answerTo(asked(question{Op: opList, Filter: domain.DeliveryFilter{Limit: 1000}}), list)
	if err != nil || len(b) > members.MaxAnswer {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	a, err := decode(b)
	if n := len(a.Page.Deliveries); err != nil || n == 0 || len(a.Page.After) != n {
		t.Errorf("%d rows, cursor behind %d, %v", n, len(a.Page.After), err)
	}
	if b, err := answerTo(asked(question{Op: opTest}), func(question) (answer, error) { return answer{}, delivery.ErrClosed }); b != nil || err != nil {
		t.Errorf("of closed lanes: %s, %v", b, err)
	}
}

// A newer program may ask for more: nothing of that is left out.
func TestUnknownQuestionIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	for _, asked := range []string{
		`{"op":"forget"}`, `{"op":"list","filter":{"Colour":"red"}}`, `{"op":"test","project":"p","loudly":true}`, `{"op":"list"`, ``, `[]`,
	} {
		b, err := answerTo([]byte(asked), func(q question) (answer, error) { return call(t.Context(), nil, q) })
		if err != nil {
			t.Fatal(err)
		}
		if a, err := decode(b); !errors.Is(err, errUnknown) || a.Trouble == "" {
			t.Errorf("%s is answered with %s: %v", asked, b, err)
		}
	}
}
