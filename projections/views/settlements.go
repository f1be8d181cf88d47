package views

import (
	"context"
	"math"
	"slices"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/eventstore/values"
	"payledger/projections/table"
)

// settlementsView lists settlement reports, for the operator and for each project with a line of
// theirs, and knows by which lines a payment was settled. The operator's project is
// eventstore.KindInstallation.
type settlementsView struct {
	rows    *table.Table[*Settlement]        // project, 0, position of its report.opened
	ids     *table.Table[uint64]             // project, 0, settlement.ID, 0: that position
	lines   *table.Table[uint64]             // project, 0, settlement.ID, 0, number of the first line: position of the report.lines
	later   *table.Table[settlement.Text]    // project, 0, settlement.ID, 0, number: a line of another's book that settles a payment of the project since it was resolved
	cleared *table.Table[settlement.Cleared] // by payment
}

// Settlement is a report as far as it is recorded. For a project, Recorded and Waiting are of its
// own lines, and Summary is not for its eyes. A line that was Matched with a payment of the project is
// as if it had been Settled from the first: the row is the same whatever came first.
type Settlement struct {
	settlement.Report
	OpenedAt domain.Instant
	Position eventstore.Position // of its report.opened
	Closed   bool
	Recorded settlement.Summary
	Waiting  int      // lines in suspense
	Resolved []int    // numbers of lines that were
	Projects []string // those with lines, in their own book or another's, the operator among them; only in the operator's row
}

func newSettlementsView(db *table.DB) *settlementsView {
	position := func(name string) *table.Table[uint64] {
		return table.New(db, name, values.AppendUint64[uint64], values.ParseUint64[uint64])
	}
	return &settlementsView{
		rows: table.OfStructs[Settlement](db, "settlements"), ids: position("settlement_ids"), lines: position("settlement_lines"),
		later: newTextTable[settlement.Text](db, "settlement_later"), cleared: newTextTable[settlement.Cleared](db, "settled"),
	}
}

func settlementKey(project string, position uint64) string {
	return listKey(project) + uint64Key(position)
}

func settlementLineKey(project, id string, number int) string {
	return listKey(project, id) + uint64Key(uint64(number))
}

// add adds a line to those that are recorded.
func (s *Settlement) add(e settlement.Entry) {
	s.Recorded.Totals = slices.Clone(s.Recorded.Totals)
	if s.Recorded = s.Recorded.Add(e.Line); e.Result.Waits() {
		s.Waiting++
	}
}

func (v *settlementsView) fold(c *change) {
	for _, write := range c.settlement {
		write()
	}
}

// prepare works out what an event changes. Only then may the tables be read.
func (v *settlementsView) prepare(c *change) error {
	const whole = eventstore.KindInstallation
	at, project := uint64(c.Record.Position), c.Record.Stream.Project
	write := func(fn func()) { c.settlement = append(c.settlement, fn) }
	insert := func(project string, s Settlement) {
		write(func() {
			v.rows.Insert(settlementKey(project, uint64(s.Position)), &s)
			v.ids.Insert(listKey(project, settlement.ID(s.Route, s.Report.Report)), uint64(s.Position))
		})
	}
	// change calls fn with the rows of a report: the operator's, where projects with lines are named, and
	// those of projects, which are made if there are none; of all that are named without any.
	change := func(id string, fn func(of string, s *Settlement), projects ...string) error {
		first, ok, err := v.get(whole, id)
		if err != nil || !ok {
			return err
		}
		if len(projects) == 0 {
			projects = first.Projects
		}
		for _, of := range append(slices.Clip(projects), whole) {
			row, had, err := v.get(of, id)
			if err != nil {
				return err
			}
			if !had {
				row = Settlement{Report: first.Report, OpenedAt: first.OpenedAt, Position: first.Position, Closed: first.Closed}
			}
			for _, one := range projects {
				if of == whole && !slices.Contains(row.Projects, one) {
					row.Projects = append(slices.Clip(row.Projects), one)
				}
			}
			if fn(of, &row); had {
				write(func() { v.rows.Replace(settlementKey(of, uint64(row.Position)), &row) })
			} else {
				insert(of, row)
			}
		}
		return nil
	}
	var settled []settlement.Entry // with the payment that each has settled
	switch e := c.Event.(type) {
	case settlement.ReportOpened:
		insert(whole, Settlement{Report: e.Report, OpenedAt: domain.InstantOf(c.Record.At), Position: c.Record.Position})
	case settlement.ReportClosed:
		return change(settlement.ID(e.Route, e.Report), func(_ string, s *Settlement) { s.Closed = true })
	case settlement.ReportLines:
		entries := make([]settlement.Entry, 0, len(e.Lines))
		for _, t := range e.Lines {
			entry, err := t.Entry()
			if err != nil {
				return &eventstore.CorruptError{Position: c.Record.Position, Reason: err.Error()}
			}
			if entries = append(entries, entry); entry.Result == settlement.Settled {
				settled = append(settled, entry)
			}
		}
		if len(entries) == 0 {
			return nil
		}
		first := settlementLineKey(project, c.Record.Stream.ID, entries[0].Number)
		write(func() { v.lines.Insert(first, at) })
		if err := change(c.Record.Stream.ID, func(_ string, s *Settlement) {
			for _, entry := range entries {
				s.add(entry)
			}
		}, project); err != nil {
			return err
		}
	case settlement.LineResolved:
		entry, err := e.Line.Entry()
		if err != nil {
			return &eventstore.CorruptError{Position: c.Record.Position, Reason: err.Error()}
		}
		later, projects := entry, []string{project}
		if e.To.Settles() {
			later.PaymentID = e.Payment
			settled = append(settled, later)
		}
		if later.RefundID = ""; e.To == settlement.Matched { // else it may be another project's
			later.Result, later.RefundID = settlement.Settled, entry.RefundID
		}
		if e.Elsewhere {
			projects = append(projects, e.Project)
			write(func() { v.later.Insert(settlementLineKey(e.Project, c.Record.Stream.ID, later.Number), later.Text()) })
		}
		if err := change(c.Record.Stream.ID, func(of string, s *Settlement) {
			its := entry
			if e.Elsewhere && of == e.Project {
				its = later
				s.add(later)
			}
			if its.Result.Waits() {
				s.Waiting--
				s.Resolved = append(slices.Clip(s.Resolved), its.Number)
			}
		}, projects...); err != nil {
			return err
		}
	}
	return v.settle(c, settled)
}

// settle notes by which lines payments are settled.
func (v *settlementsView) settle(c *change, entries []settlement.Entry) error {
	now := make(map[string]settlement.Cleared)
	for _, e := range entries {
		id, _ := domain.ParseID(e.PaymentID)
		key := idKey(id)
		before, seen := now[key]
		if !seen {
			var had bool
			var err error
			if before, had, err = v.cleared.Get(key); err != nil {
				return err
			}
			c.settlement = append(c.settlement, func() {
				if had {
					v.cleared.Replace(key, now[key])
				} else {
					v.cleared.Insert(key, now[key])
				}
			})
		}
		now[key] = before.With(e.Line, settlement.LineID(c.Record.Stream.ID, e.Number))
	}
	return nil
}

func (v *settlementsView) get(project, id string) (Settlement, bool, error) {
	at, ok, err := v.ids.Get(listKey(project, id))
	if err != nil || !ok {
		return Settlement{}, false, err
	}
	s, ok, err := v.rows.Get(settlementKey(project, at))
	if err != nil || !ok {
		return Settlement{}, false, err
	}
	return *s, true, nil
}

// Settlement finds a report by its settlement.ID: for a project, one with a line of its own.
func (v *Views) Settlement(ctx context.Context, project, id string) (Settlement, bool, error) {
	if err := v.fresh(ctx); err != nil {
		return Settlement{}, false, err
	}
	return v.settlements.get(project, id)
}

// Settlements lists the reports of a project, the newest first, before a position; 0: from the
// newest on.
func (v *Views) Settlements(ctx context.Context, project string, before eventstore.Position, limit int) ([]*Settlement, error) {
	if err := v.fresh(ctx); err != nil {
		return nil, err
	}
	if before == 0 {
		before = math.MaxInt64
	}
	found, err := v.settlements.rows.First(ctx, table.Range{Lo: listKey(project), Hi: settlementKey(project, uint64(before))}, true, limit)
	all := make([]*Settlement, len(found))
	for i, f := range found {
		all[i] = f.Value
	}
	return all, err
}

// EachBook calls fn with the streams of the lines of all reports, those of the newest report first,
// until it fails.
func (v *Views) EachBook(ctx context.Context, fn func(eventstore.Stream) error) error {
	const some = 100
	for before := eventstore.Position(0); ; {
		all, err := v.Settlements(ctx, eventstore.KindInstallation, before, some)
		for _, s := range all {
			before = s.Position
			for _, project := range s.Projects {
				if err == nil {
					err = fn(eventstore.BookStream(project, settlement.ID(s.Route, s.Report.Report)))
				}
			}
		}
		if err != nil || len(all) < some {
			return err
		}
	}
}

// Cleared are the lines by which a payment was settled.
func (v *Views) Cleared(ctx context.Context, payment domain.ID) (settlement.Cleared, error) {
	if err := v.fresh(ctx); err != nil {
		return "", err
	}
	c, _, err := v.settlements.cleared.Get(idKey(payment))
	return c, err
}

// SettledBy are the lines of reports that have settled a payment of the project, in the order in
// which they were recorded to.
func (v *Views) SettledBy(ctx context.Context, project string, payment domain.ID) ([]settlement.Line, error) {
	cleared, err := v.Cleared(ctx, payment)
	lines := []settlement.Line{}
	for _, at := range cleared.Lines() {
		id, number, _ := settlement.ParseLineID(at)
		found, err := v.LaterLines(ctx, project, id, number-1, 1)
		if err == nil {
			err = v.EachSettlementLine(ctx, project, id, number-1, func(e settlement.Entry) bool {
				found = append(found, e)
				return false
			})
		}
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			if e.Number == number {
				lines = append(lines, e.Line)
			}
		}
	}
	return lines, err
}

// LastSettlementLines is the newest event of lines of a report in the books of a project; nil: there
// is none.
func (v *Views) LastSettlementLines(ctx context.Context, project, id string) (eventstore.Stored, domain.Event, error) {
	if err := v.fresh(ctx); err != nil {
		return eventstore.Stored{}, nil, err
	}
	last, err := v.settlements.lines.First(ctx, table.Prefix(listKey(project, id)), true, 1)
	if err != nil || len(last) == 0 {
		return eventstore.Stored{}, nil, err
	}
	return v.log.EventAt(ctx, eventstore.Position(last[0].Value))
}

// EachSettlementLine calls fn for the lines of a report that are in the books of a project, in
// the order of their numbers, those above after, until fn returns false.
func (v *Views) EachSettlementLine(ctx context.Context, project, id string, after int, fn func(settlement.Entry) bool) error {
	if err := v.fresh(ctx); err != nil {
		return err
	}
	all := table.Prefix(listKey(project, id))
	from := table.Range{Lo: all.Lo, Hi: settlementLineKey(project, id, after+1)}
	before, err := v.settlements.lines.First(ctx, from, true, 1) // its lines may be above as well
	if err != nil {
		return err
	}
	if len(before) > 0 {
		all.Lo = before[0].Key
	}
	found, err := v.settlements.lines.First(ctx, all, false, math.MaxInt)
	if err != nil {
		return err
	}
	for _, f := range found {
		_, e, err := v.log.EventAt(ctx, eventstore.Position(f.Value))
		if err != nil {
			return err
		}
		lines, _ := e.(settlement.ReportLines)
		for _, t := range lines.Lines {
			entry, err := t.Entry()
			if err != nil {
				return err
			}
			if entry.Number > after && !fn(entry) {
				return nil
			}
		}
	}
	return nil
}

// LaterLines are the first lines of a report above a number that are in another's books and settle
// payments of the project since they were resolved, in the order of their numbers.
func (v *Views) LaterLines(ctx context.Context, project, id string, after, limit int) ([]settlement.Entry, error) {
	if err := v.fresh(ctx); err != nil {
		return nil, err
	}
	above := table.Range{Lo: settlementLineKey(project, id, after+1), Hi: table.Prefix(listKey(project, id)).Hi}
	found, err := v.settlements.later.First(ctx, above, false, limit)
	all := make([]settlement.Entry, len(found))
	for i, f := range found {
		if err == nil {
			all[i], err = f.Value.Entry()
		}
	}
	return all, err
}
