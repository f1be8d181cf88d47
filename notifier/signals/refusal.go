package signals

import (
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
)

// maxLinesPerMinute bounds the log lines about single signals; metrics count them all.
const maxLinesPerMinute = 60

func limitLines(log zerolog.Logger) zerolog.Logger {
	return log.Sample(&zerolog.BurstSampler{Burst: maxLinesPerMinute, Period: time.Minute})
}

// countRefusal counts a refused signal. If it reports money that is not booked
// for this payment, an error is logged for the operator.
func (e *Enforcer) countRefusal(s *signal, reply domain.SignalReply) {
	e.refusals.WithLabelValues(reply.Reason).Inc()
	if reply.Unrecorded {
		e.unrecorded.Inc()
	}
	says, reason := s.says, reply.Reason
	if says.Outcome != domain.OutcomePaid && says.Outcome != domain.OutcomeSucceeded && !says.Outcome.AboutDispute() {
		return
	}
	alarm := func() *zerolog.Event {
		line := e.alarms.Error()
		if says.RefundID != nil {
			line.Stringer("refund", says.RefundID)
		}
		return line.Str("reason", reason).Str("project", s.project).Stringer("payment", s.payment).
			Str("route", says.Route).Str("reference", says.Reference).
			Stringer("amount", says.Amount).Str("currency", string(says.Currency)).Stringer("started_at", says.StartedAt)
	}
	switch {
	case says.Outcome.AboutDispute() && reason != domain.ReasonFinalStatus && reason != domain.ReasonReferenceConflict && reason != domain.ReasonWrongRoute:
		alarm().Msg("a provider says that money is disputed which is not what paid the payment; it is refused and not booked: " +
			"ask the provider what it took, and settle it by hand")
	case reason == domain.ReasonStartedEarly:
		alarm().Msg("a provider says that a payment is paid by an attempt begun before the payment was created; it is refused and " +
			"not booked: ask the provider whose money it is, and compare its clock with this one")
	case reason != domain.ReasonReferenceUsed || s.taken == nil:
	case says.RefundID != nil:
		s.taken.addToLine(alarm()).Msg("a provider names one reference for two refunds; the holder has it, this signal is refused " +
			"and its refund stays pending: ask the provider which payment's money went back")
	default:
		s.taken.addToLine(alarm()).Msg("a provider names one reference for two payments; its money is booked for the holder and this signal is refused: " +
			"ask the provider which payment the money is for, and why it used the reference twice")
	}
}
