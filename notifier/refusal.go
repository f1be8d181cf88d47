package notifier

import (
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
)

// The alarms about refused money are this many in a minute at most; the metric
// payledger_signals_refused_total counts them all.
const refusalAlarms = 60

func refusalLog(log zerolog.Logger) zerolog.Logger {
	return log.Sample(&zerolog.BurstSampler{Burst: refusalAlarms, Period: time.Minute})
}

// countRefusal counts a signal that was refused. Where a provider says that
// money came and it is booked nowhere, the operator has to look.
func (e *Enforcer) countRefusal(s *signal, reason string) {
	e.refusals.WithLabelValues(reason).Inc()
	if s.says.Outcome != domain.OutcomePaid || reason != domain.ReasonStartedEarly {
		return
	}
	e.alarms.Error().Str("reason", reason).Str("project", s.project).Stringer("payment", s.payment).
		Str("route", s.says.Route).Str("reference", s.says.Reference).
		Stringer("amount", s.says.Amount).Str("currency", string(s.says.Currency)).Stringer("started_at", s.says.StartedAt).
		Msg("a provider says that a payment is paid by an attempt begun before the payment was created; it is refused and " +
			"booked nowhere: ask the provider whose money it is, and compare its clock with this one")
}
