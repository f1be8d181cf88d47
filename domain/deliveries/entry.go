package deliveries

import (
	"fmt"
	"strconv"
	"strings"

	"payledger/domain"
)

// What is what an entry says of a delivery.
type What string

// What entries say. Begun is durable before the request is made; from Delivered to
// Gone they say how an attempt ended.
const (
	Begun     What = "begun"
	Delivered What = "delivered"
	Failed    What = "failed"   // a try is used up, and there are more
	Probed    What = "probed"   // it failed and used up no try
	GivenUp   What = "given_up" // it was the last try
	Parked    What = "parked"   // the target may not be called
	Gone      What = "gone"     // 410

	Held      What = "held"      // it left the queue because the endpoint is disabled
	Cancelled What = "cancelled" // or removed, or no longer subscribes to the kind
	// Superseded: a later event is known, and was not begun. What stands before an event
	// that is begun is superseded without an entry.
	Superseded What = "superseded"

	Requested What = "requested" // it is queued again
	Tested    What = "tested"    // endpoint.test is queued; Payment is the id of the test
)

// Ends reports whether an entry says how an attempt ended.
func (w What) Ends() bool {
	switch w {
	case Delivered, Failed, Probed, GivenUp, Parked, Gone:
		return true
	}
	return false
}

// Entry is one thing that happened to the delivery of an event, which is named by its
// payment and its sequence in that.
//
// Its text is the endpoint's number in Noted.Endpoints, the payment, the sequence and
// what happened, separated by spaces. At the end of an attempt follow the class of the
// failure ("-" without one), the status, and in milliseconds the duration, the time until
// the next try and that for which the endpoint's circuit breaker is open, of which zeros
// at the end are left out. After "requested" follow the event, its kind and its position:
//
//	0 01M7W78FJBM8T4R7B5N0C1D2E3 3 begun
//	0 01M7W78FJBM8T4R7B5N0C1D2E3 3 delivered - 200 12
//	0 01M7W78FJBM8T4R7B5N0C1D2E3 3 failed timeout 0 15000 5321
type Entry struct {
	Endpoint int // in Noted.Endpoints
	Payment  domain.ID
	Sequence uint64
	What     What

	// Of an attempt that ended.
	Class  string
	Status int
	Took   int64 // milliseconds, as are these:
	Wait   int64 // until the next try
	Pause  int64 // until the circuit breaker lets a probe through; 0: it is closed

	// Of Requested: the fold may have forgotten the event.
	Event    domain.ID
	Kind     domain.Kind
	Position uint64
}

// numbers are those after the class.
func (e *Entry) numbers() [4]int64 { return [...]int64{int64(e.Status), e.Took, e.Wait, e.Pause} }

// Text is an entry as it is recorded.
type Text string

// Text writes the entry.
func (e Entry) Text() Text {
	b := make([]byte, 0, 64)
	b = append(strconv.AppendInt(b, int64(e.Endpoint), 10), ' ')
	b = append(append(b, e.Payment.String()...), ' ')
	b = append(strconv.AppendUint(b, e.Sequence, 10), ' ')
	b = append(b, e.What...)
	switch {
	case e.What.Ends():
		class := e.Class
		if class == "" {
			class = "-"
		}
		b = append(append(b, ' '), class...)
		all := e.numbers()
		n := len(all)
		for n > 0 && all[n-1] == 0 {
			n--
		}
		for _, one := range all[:n] {
			b = strconv.AppendInt(append(b, ' '), one, 10)
		}
	case e.What == Requested:
		b = append(append(append(b, ' '), e.Event.String()...), ' ')
		b = append(append(b, e.Kind...), ' ')
		b = strconv.AppendUint(b, e.Position, 10)
	}
	return Text(b)
}

// Entry reads what Entry.Text writes, and nothing else.
func (t Text) Entry() (e Entry, err error) {
	r := reader{fields: strings.Split(string(t), " ")}
	e.Endpoint, e.Payment, e.Sequence, e.What = int(r.number()), r.id(), uint64(r.number()), What(r.next())
	switch {
	case e.What.Ends():
		if e.Class = r.next(); e.Class == "-" {
			e.Class = ""
		}
		all := [...]*int64{new(int64), &e.Took, &e.Wait, &e.Pause}
		for i := 0; i < len(all) && len(r.fields) > 0; i++ {
			*all[i] = r.number()
		}
		e.Status = int(*all[0])
	case e.What == Requested:
		e.Event, e.Kind, e.Position = r.id(), domain.Kind(r.next()), uint64(r.number())
	case e.What == Begun, e.What == Held, e.What == Cancelled, e.What == Superseded, e.What == Tested:
	default:
		r.bad = true
	}
	if r.bad || e.Text() != t {
		return Entry{}, fmt.Errorf("the entry %q of a delivery is none", t)
	}
	return e, nil
}

// reader reads the fields of an entry.
type reader struct {
	fields []string
	bad    bool
}

func (r *reader) next() (field string) {
	if len(r.fields) == 0 {
		r.bad = true
		return ""
	}
	field, r.fields = r.fields[0], r.fields[1:]
	return field
}

func (r *reader) number() int64 {
	n, err := strconv.ParseInt(r.next(), 10, 64)
	r.bad = r.bad || err != nil || n < 0
	return n
}

func (r *reader) id() domain.ID {
	id, ok := domain.ParseID(r.next())
	r.bad = r.bad || !ok
	return id
}
