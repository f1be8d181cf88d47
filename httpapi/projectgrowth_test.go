package httpapi

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"

	"payledger/eventstore"
)

// counted is a store that counts the records of projects that are read.
type counted struct {
	eventstore.Store
	read atomic.Int64
}

func (c *counted) LoadAfter(ctx context.Context, s eventstore.Stream, after eventstore.Position) iter.Seq2[eventstore.Stored, error] {
	return func(yield func(eventstore.Stored, error) bool) {
		for r, err := range c.Store.LoadAfter(ctx, s, after) {
			if s.Kind == eventstore.KindProject {
				c.read.Add(1)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// TestCommandsOfAProjectStayCheap however many there were.
func TestCommandsOfAProjectStayCheap(t *testing.T) {
	t.Parallel()
	var store *counted
	s := start(t, func(c *settings) {
		store = &counted{Store: c.Ledger.Store}
		c.Ledger.Store = store
	})
	m := s.merchant("")
	kept := endpointsPath + "/" + m.hook(`{"url":"`+hookURL+`"}`).ID
	for n := range 20 {
		before := store.read.Load()
		id := m.hook(fmt.Sprintf(`{"url":%q}`, hookURL)).ID
		m.send("POST", kept+"/disable", nil).want(200, "")
		m.send("POST", kept+"/enable", nil).want(200, "")
		m.send("DELETE", endpointsPath+"/"+id, nil).want(204, "")
		if read := store.read.Load() - before; read > 8 {
			t.Fatalf("4 commands read %d records of the project after %d commands", read, 4*n)
		}
	}
}
