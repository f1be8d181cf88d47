package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// SettlementView finds what lines of settlement reports are for. It reflects what was durable when
// it was called.
type SettlementView interface {
	// EachBook calls fn with the streams of the lines of all reports, and returns fn's error.
	EachBook(ctx context.Context, fn func(eventstore.Stream) error) error
	// PaymentOfLine finds the payment that a line of a report of the route names, the zero Payment if
	// it names none.
	PaymentOfLine(ctx context.Context, route string, l settlement.Line) (domain.Payment, error)
	// Payment finds a payment.
	Payment(ctx context.Context, id domain.ID) (domain.Payment, bool, error)
	// Cleared are the lines by which a payment was settled.
	Cleared(ctx context.Context, payment domain.ID) (settlement.Cleared, error)
}

// settler makes it indifferent whether a report or the outcomes of its payments come first. A line
// that names no payment settles one as soon as its reference is known, one of a refund by another hand as
// soon as that is heard of, and what lines of disputes say
// is recorded of the payments as soon as they are paid. It keeps in memory what may still come, and
// finds that again at its start, so nothing is left out after an outage or a restart.
type settler struct {
	Config

	trouble health.State

	at       eventstore.Position // up to which the log is read; 0: nothing is
	unknown  map[string][]inBook // lines in suspense of which something is not known yet, by their references
	disputes map[string][]inBook // lines of disputes of which nothing was recorded yet, by their payments' ids
	due      []func(context.Context) error
	worked   time.Time // the work since the last pause

	stream eventstore.Stream // of the book that was read last
	book   settlement.Book
	last   eventstore.Stored
}

// inBook is a line in a report's book.
type inBook struct {
	stream     eventstore.Stream
	feesPaidBy settlement.Bearer
	text       settlement.Text
}

const (
	settlerEvery = time.Second
	settlerWorks = 2 * time.Millisecond // until it pauses for as long
)

func newSettler(c Config) *settler {
	return &settler{
		Config: c, trouble: health.State{Log: c.Log, Part: "matching of settlement lines"},
		unknown: make(map[string][]inBook), disputes: make(map[string][]inBook),
	}
}

func (s *settler) run(ctx context.Context) error {
	step := func(ctx context.Context) (time.Duration, error) { return settlerEvery, s.step(ctx) }
	return repeat(ctx, step, s.trouble.Set)
}

// step does what the log has brought since the last one.
func (s *settler) step(ctx context.Context) error {
	upTo, err := s.Ledger.Store.Last(ctx)
	if err != nil {
		return err
	}
	s.worked = time.Now()
	if s.at == 0 {
		err = s.begin(ctx, upTo)
	} else {
		err = s.follow(ctx)
	}
	if err != nil {
		return err
	}
	for len(s.due) > 0 && s.pause(ctx) {
		if err := s.due[0](ctx); err != nil {
			return err
		}
		s.due = s.due[1:]
	}
	return nil
}

// begin reads all books, up to a position.
func (s *settler) begin(ctx context.Context, upTo eventstore.Position) error {
	clear(s.unknown)
	clear(s.disputes)
	s.due = nil
	err := s.Settlements.EachBook(ctx, func(stream eventstore.Stream) error {
		for r, err := range s.Ledger.Store.Load(ctx, stream) {
			if err != nil {
				return err
			}
			if r.Position > upTo || !s.pause(ctx) {
				break
			}
			if err := s.fold(r); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	if err == nil {
		s.at = upTo
	}
	return err
}

// follow reads on. Outcomes are of no matter while nothing waits for one: a line that is read later
// is looked up then.
func (s *settler) follow(ctx context.Context) error {
	for r, err := range s.Ledger.Store.Scan(ctx, s.at, eventstore.Filter{}) {
		if err != nil {
			return err
		}
		if err := s.fold(r); err != nil {
			return err
		}
		if s.at = r.Position; !s.pause(ctx) {
			return ctx.Err()
		}
	}
	return nil
}

// pause pauses when it is time to, so that the work takes half a core at most.
func (s *settler) pause(ctx context.Context) bool {
	if worked := time.Since(s.worked); worked > settlerWorks {
		health.Pause(ctx, worked)
		s.worked = time.Now()
	}
	return ctx.Err() == nil
}

func (s *settler) fold(r eventstore.Stored) error {
	lines := r.Stream.Kind == eventstore.KindSettlement
	if !lines && (r.Stream.Kind != eventstore.KindPayment || len(s.unknown)+len(s.disputes) == 0) {
		return nil
	}
	event, err := s.Ledger.Codec.Event(r)
	if err != nil {
		return err
	}
	reference := ""
	switch e := event.(type) {
	case settlement.ReportLines:
		for _, t := range e.Lines {
			switch l, err := t.Entry(); {
			case err != nil: // verify names it
			case l.Reference != "" && (l.Result == settlement.UnknownReference || l.Result == settlement.AmountDiffers && l.Kind == settlement.KindRefund):
				one := inBook{r.Stream, e.FeesPaidBy, t}
				s.unknown[l.Reference] = append(s.unknown[l.Reference], one)
				s.due = append(s.due, func(ctx context.Context) error { return s.match(ctx, one) })
			case l.Result == settlement.Settled && l.Kind == settlement.KindDispute:
				s.says(l.PaymentID, inBook{r.Stream, e.FeesPaidBy, t})
			}
		}
		return nil
	case settlement.LineResolved:
		l, err := e.Line.Entry()
		if err != nil {
			return nil //nolint:nilerr // verify names it
		}
		if e.To.Settles() && l.Kind == settlement.KindDispute {
			s.says(e.Payment, inBook{r.Stream, e.FeesPaidBy, e.Line})
		}
		rest := slices.DeleteFunc(slices.Clone(s.unknown[l.Reference]), func(of inBook) bool { return of.stream == r.Stream && of.text == e.Line })
		if s.unknown[l.Reference] = rest; len(rest) == 0 {
			delete(s.unknown, l.Reference)
		}
		return nil
	case domain.PaymentAttemptOffered:
		reference = e.Reference
	case domain.PaymentRefundedAtProvider:
		reference = e.RefundReference
	case domain.PaymentEvent:
		if signal := domain.FactsOf(e).Signal; signal != nil {
			reference = signal.Reference
		}
	}
	for _, one := range s.unknown[reference] {
		s.due = append(s.due, func(ctx context.Context) error { return s.match(ctx, one) })
	}
	if payment := r.Stream.ID; len(s.disputes[payment]) > 0 {
		s.due = append(s.due, func(ctx context.Context) error { return s.record(ctx, payment) })
	}
	return nil
}

// says keeps a line of a dispute of a payment, until what it says is recorded.
func (s *settler) says(payment string, one inBook) {
	s.disputes[payment] = append(s.disputes[payment], one)
	s.due = append(s.due, func(ctx context.Context) error { return s.record(ctx, payment) })
}

// match takes a line out of suspense if it settles a payment by now.
func (s *settler) match(ctx context.Context, one inBook) error {
	l, err := one.text.Entry()
	if err != nil || !slices.Contains(s.unknown[l.Reference], one) {
		return err
	}
	s.Settling.Lock()
	defer s.Settling.Unlock()
	route, report, _ := settlement.ParseID(one.stream.ID)
	p, err := s.Settlements.PaymentOfLine(ctx, route, l.Line)
	if err != nil || p.Status == "" {
		return err
	}
	cleared, err := s.Settlements.Cleared(ctx, p.ID)
	if err != nil || !l.Names(p) || settlement.Judge(route, l.Line, p, cleared.Of(l.Line)) != settlement.Settled {
		return err
	}
	if s.stream != one.stream {
		s.stream, s.last = one.stream, eventstore.Stored{}
		s.book = settlement.Book{Project: one.stream.Project, Route: route, Report: report}
	}
	if s.book, s.last, err = eventstore.FoldAfter(ctx, s.Ledger, s.stream, s.book, s.last); err != nil {
		s.stream = eventstore.Stream{}
		return s.refused(ctx, p, err)
	}
	c := settlement.ResolveLine{Number: l.Number, To: settlement.Matched, Payment: p.ID.String(), Project: p.Project, FeesPaidBy: one.feesPaidBy}
	c.Settles, c.Currency = settlement.Settles(l.Line, p)
	e, err := s.book.Decide(c)
	if err != nil {
		return s.refused(ctx, p, err)
	}
	commit, err := s.Ledger.Commit(s.stream, s.last, e, eventstore.Order{EventID: s.IDs.Next(), Patient: true})
	if err == nil {
		_, err = eventstore.AppendOne(ctx, s.Ledger.Store, commit)
	}
	return s.refused(ctx, p, err)
}

// record records of a payment what the lines of its disputes say, once its outcome is known.
func (s *settler) record(ctx context.Context, payment string) error {
	id, _ := domain.ParseID(payment)
	p, found, err := s.Settlements.Payment(ctx, id)
	if err != nil || found && !p.Status.Final() {
		return err
	}
	for _, one := range s.disputes[payment] {
		l, err := one.text.Entry()
		if err != nil {
			continue // verify names it
		}
		signal, ok := l.Says(p)
		if !ok {
			continue
		}
		done, err := eventstore.Execute(ctx, s.Ledger, eventstore.PaymentStream(p.Project, p.ID), domain.Payment{Project: p.Project, ID: p.ID},
			domain.PaymentCommand(domain.ApplySignal{Signal: signal}), eventstore.Order{EventID: s.IDs.Next(), Patient: true})
		if err := s.refused(ctx, p, err); err != nil {
			return err
		}
		if done.State.Status != "" {
			p = done.State
		}
	}
	delete(s.disputes, payment)
	return nil
}

// refused returns the error if it passes, and what is due is tried again. Others concern only that
// payment.
func (s *settler) refused(ctx context.Context, p domain.Payment, err error) error {
	if err == nil || ctx.Err() != nil || health.Ends(err) || health.Passes(err) || errors.As(err, new(*eventstore.ConflictError)) {
		return err
	}
	if refusal, ok := errors.AsType[*domain.Refusal](err); ok && refusal.Code == domain.SettlementLineNotFound || errors.As(err, new(*domain.UnrecordedError)) {
		return nil // it was resolved meanwhile, or the payment has too many refusals
	}
	s.Log.Error().Err(err).Str("project", p.Project).Str("payment", p.ID.String()).Msg("a line of a settlement report was not matched with its payment")
	return nil
}
