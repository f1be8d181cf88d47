package audit

import (
	"cmp"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
)

// settlements is the state of all settlement reports.
type settlements struct {
	routes   map[string]*stream[settlement.Reports]
	recorded map[string]settlement.Summary // of the open report, by route
	books    map[eventstore.Stream]*stream[settlement.Book]
	cleared  map[domain.ID]settlement.Cleared // by payment
}

func newSettlements() settlements {
	return settlements{
		routes: make(map[string]*stream[settlement.Reports]), recorded: make(map[string]settlement.Summary),
		books: make(map[eventstore.Stream]*stream[settlement.Book]), cleared: make(map[domain.ID]settlement.Cleared),
	}
}

func (s *settlements) route(name string) *stream[settlement.Reports] {
	return streamAt(s.routes, name, settlement.Reports{Route: name})
}

// followSettlement checks the reports of a route, or the lines of one.
func (c *checker) followSettlement(i *item) {
	r := &i.record
	route, report, lines := settlement.ParseID(r.Stream.ID)
	switch {
	case lines:
		c.followBook(i, route, report)
	case domain.ValidRoute(r.Stream.ID) && r.Stream == eventstore.ReportsStream(r.Stream.ID):
		s := &c.streams.settlements
		of := s.route(r.Stream.ID)
		known := evolve(c, i, &of.head, &of.state, func() error {
			err := of.state.Redecide(i.event, domain.IDTime(r.Commit), s.recorded[r.Stream.ID])
			if c.unseen() {
				return nil
			}
			return err
		})
		if known && i.event.Type() == settlement.TypeReportOpened {
			delete(s.recorded, r.Stream.ID)
		}
	default:
		c.add(r, BrokenStream, "the stream's id is neither a route nor a report of one")
	}
}

func (c *checker) followBook(i *item, route, report string) {
	r, s := &i.record, &c.streams.settlements
	b := streamAt(s.books, r.Stream, settlement.Book{Project: r.Stream.Project, Route: route, Report: report})
	if !evolve(c, i, &b.head, &b.state, func() error { return b.state.Redecide(i.event) }) {
		return
	}
	of := s.route(route)
	switch e := i.event.(type) {
	case settlement.ReportLines:
		opened, found := of.state.Find(report)
		if !of.blind && (found || !c.unseen()) && (!found || !of.state.Open || of.state.All[len(of.state.All)-1].Report != report || opened.FeesPaidBy != e.FeesPaidBy) {
			c.add(r, ImpossibleEvent, "report %s is not being recorded, or others bear its fees", r.Stream.ID)
		}
		for _, t := range e.Lines {
			if entry, err := t.Entry(); err == nil {
				s.recorded[route] = s.recorded[route].Add(entry.Line)
				c.judge(i, route, entry)
			}
		}
	case settlement.LineResolved:
		c.resolved(i, e)
	}
}

// judge decides again what a line is.
func (c *checker) judge(i *item, route string, e settlement.Entry) {
	home := eventstore.KindInstallation
	var of domain.Payment
	id, _ := domain.ParseID(e.PaymentID)
	if p := c.streams.payment(id); p != nil {
		if p.blind {
			return
		}
		of = p.state
	}
	cleared := c.streams.settlements.cleared[id]
	if e.Result.OfPayment() && of.Project != "" {
		home = of.Project
	}
	if e.Result == settlement.AmountDiffers {
		of.ProviderRefunds = nil // it was judged before they were heard of, or by the rule of before
	}
	switch got := settlement.Judge(route, e.Line, of, cleared.Of(e.Line)); {
	case c.unseen():
	case got != e.Result:
		c.add(&i.record, ImpossibleEvent, "line %d is recorded as %s, and the rules lead to %s", e.Number, e.Result, got)
	case i.record.Stream.Project != home:
		c.add(&i.record, BrokenStream, "line %d belongs to the books of %s", e.Number, home)
	}
	if e.Result == settlement.Settled {
		c.streams.settlements.cleared[id] = cleared.With(e.Line, "")
	}
}

func (c *checker) resolved(i *item, e settlement.LineResolved) {
	line, err := e.Line.Entry()
	if !e.To.Settles() || err != nil {
		return
	}
	id, _ := domain.ParseID(e.Payment)
	p := c.streams.payment(id)
	if !c.unseen() && (p == nil || p.state.Project != e.Project) {
		c.add(&i.record, ImpossibleEvent, "there is no payment %s of project %s", e.Payment, e.Project)
	}
	if opened, found := c.streams.settlements.route(e.Route).state.Find(e.Report); found && opened.FeesPaidBy != e.FeesPaidBy {
		c.add(&i.record, ImpossibleEvent, "others bear the fees of report %s", e.Report)
	}
	cleared := c.streams.settlements.cleared[id]
	if p != nil && !p.blind {
		is := func(settles domain.Sum, in domain.Currency) bool {
			return e.Settles == settles && cmp.Or(e.SettlesIn, line.Currency) == in
		}
		before := p.state
		before.ProviderRefunds = nil // as in judge
		switch {
		case !is(settlement.Settles(line.Line, p.state)) && !is(settlement.Settles(line.Line, before)):
			c.add(&i.record, ImpossibleEvent, "line %d settles another amount of payment %s", line.Number, e.Payment)
		case e.To == settlement.Matched && (!line.Names(p.state) || settlement.Judge(e.Route, line.Line, p.state, cleared.Of(line.Line)) != settlement.Settled):
			c.add(&i.record, ImpossibleEvent, "line %d is matched with payment %s, which it does not name and settle", line.Number, e.Payment)
		}
	}
	c.streams.settlements.cleared[id] = cleared.With(line.Line, "")
}
