package notifier

import (
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
)

// linesAMinute bounds what is logged of single signals; metrics count them all.
const linesAMinute = 60

func fewLines(log zerolog.Logger) zerolog.Logger {
	return log.Sample(&zerolog.BurstSampler{Burst: linesAMinute, Period: time.Minute})
}

// countRefusal counts a signal that was refused. Where a provider says that
// money came and it is booked nowhere, the operator has to look.
func (e *Enforcer) countRefusal(s *signal, reply domain.SignalReply) {
	e.refusals.WithLabelValues(reply.Reason).Inc()
	if reply.Unrecorded {
		e.unrecorded.Inc()
	}
	says, reason := s.content.says, reply.Reason
	if says.Outcome != domain.OutcomePaid || reason != domain.ReasonStartedEarly {
		return
	}
	e.alarms.Error().Str("reason", reason).Str("project", s.project).Stringer("payment", s.payment).
		Str("route", says.Route).Str("reference", says.Reference).
		Stringer("amount", says.Amount).Str("currency", string(says.Currency)).Stringer("started_at", says.StartedAt).
		Msg("a provider says that a payment is paid by an attempt begun before the payment was created; it is refused and " +
			"booked nowhere: ask the provider whose money it is, and compare its clock with this one")
}
