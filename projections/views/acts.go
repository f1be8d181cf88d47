package views

import (
	"context"
	"encoding/binary"
	"math"

	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/projections/table"
)

// actsView lists the acts by position, as 8 bytes, with their projects: events of
// no payment, and events of a payment that have an actor, but for its creation, which
// the list of payments shows. The lines of settlement reports are left out: opening one is the act.
type actsView struct{ *table.Table[string] }

func newActsView(db *table.DB) *actsView { return &actsView{newTextTable[string](db, "acts")} }

func (v *actsView) fold(c *change) {
	r := &c.Record
	act := c.Event.Type() != settlement.TypeReportLines
	switch r.Stream.Kind {
	case eventstore.KindPayment:
		act = r.Sequence > 1 && eventstore.CauseOf(r.Body).Actor != ""
	case eventstore.KindDeliveries, eventstore.KindOpaque:
		act = false
	}
	if act {
		v.Insert(uint64Key(uint64(r.Position)), r.Stream.Project)
	}
}

// EachAct calls fn for the acts after a position, in order, until fn returns an error, which it
// returns.
func (v *Views) EachAct(ctx context.Context, after eventstore.Position, fn func(project string, at eventstore.Position) error) error {
	if err := v.fresh(ctx); err != nil {
		return err
	}
	from := table.Range{Lo: uint64Key(uint64(after) + 1)}
	return v.acts.Each(ctx, from, math.MaxInt, func(key, project string) error {
		return fn(project, eventstore.Position(binary.BigEndian.Uint64([]byte(key))))
	})
}
