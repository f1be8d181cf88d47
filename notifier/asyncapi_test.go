package notifier

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/signals"
)

// TestAsyncAPIDescribesWhatTheCodeUses: every subject, name, header, event
// type, outcome, result and reason.
func TestAsyncAPIDescribesWhatTheCodeUses(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(content)
	words := append(bus.PaymentSubjects("*"),
		"asyncapi: 3.1.0", bus.EventsPrefix, bus.SignalsPrefix, bus.ParkedSubject, bus.CallSubject("{route}", "{call}"), bus.DetailsSubject("{project_id}", "{payment_id}"),
		bus.EventsStream, bus.SignalsStream, bus.ParkedStream, bus.CheckpointsStream, bus.CheckpointsSubject, bus.SubscriberConsumer, bus.InboxSubscriber, bus.InboxConnector, bus.InboxLedger,
		bus.ReplyHeader, signals.HeaderParkedReason, signals.HeaderParkedDetail, signals.HeaderParkedSubject,
		bus.HeaderSpecVersion, bus.HeaderID, bus.HeaderSource, bus.HeaderType, bus.HeaderTime, bus.HeaderSubject, bus.HeaderPosition,
		bus.HeaderStreamSequence, bus.HeaderContentType,
		domain.SignalApplied, domain.SignalUnchanged, domain.SignalRefused, domain.SignalLateFunds, domain.SignalParked,
		domain.ReasonWrongRoute, domain.ReasonFinalStatus, domain.ReasonUnknownRefund, domain.ReasonReferenceConflict, domain.ReasonReferenceUsed,
		domain.ReasonWrongAmount, domain.ReasonStartedEarly, domain.ReasonStartedLate, domain.ReasonPaidTwice, domain.ReasonAfterExpired, domain.ReasonAfterFailed,
		signals.ParkedMalformed, signals.ParkedUnknownPayment, signals.ParkedUnreadable,
		string(domain.OutcomePaid), string(domain.OutcomeFailed), string(domain.OutcomeExpired), string(domain.OutcomeSucceeded), string(domain.OutcomeReturned),
		string(domain.OutcomeDisputed), string(domain.OutcomeDisputeWon), string(domain.OutcomeDisputeLost), domain.ReasonNotPaid, domain.ReasonTooManyDisputes,
	)
	for _, word := range words {
		if !strings.Contains(doc, word) {
			t.Errorf("%s is not described", word)
		}
	}
	var types []string
	for _, e := range domain.Events() {
		if _, ok := e.Sample.(domain.PaymentEvent); ok {
			types = append(types, e.Name)
		}
	}
	described := regexp.MustCompile(`(?m)^ +- ((?:payment|refund|return)\.\w+)$`).FindAllStringSubmatch(doc, -1)
	var got []string
	for _, m := range described {
		got = append(got, m[1])
	}
	slices.Sort(types)
	slices.Sort(got)
	if !slices.Equal(types, got) {
		t.Errorf("describes %v, there are %v", got, types)
	}
	for _, ref := range regexp.MustCompile(`\$ref: '#/([\w/]+)'`).FindAllStringSubmatch(doc, -1) {
		path := strings.Split(ref[1], "/")
		at := 0
		for depth, key := range path {
			next := strings.Index(doc[at:], "\n"+strings.Repeat("  ", depth)+key+":")
			if next < 0 {
				t.Errorf("%s leads nowhere", ref[1])
				break
			}
			at += next
		}
	}
}
