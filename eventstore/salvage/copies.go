package salvage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
	"payledger/eventstore/translog"
)

// here holds the copies of one position.
type here struct {
	position eventstore.Position
	copies   []found
	trouble  string // why a copy cannot be used
}

// found is one source's copy of a record.
type found struct {
	record           eventstore.Stored
	leaf             tlog.Hash
	source           int
	durable, checked bool
}

// option is a record and the sources that have it.
type option struct {
	leaf    tlog.Hash
	record  eventstore.Stored
	from    []int
	durable map[int]bool // sources
	checked bool
}

func (o option) firm() bool { return len(o.durable) > 1 || (len(o.durable) == 1 && o.checked) }

// soleDurable is the index of the only durable option, if its sources are
// sufficient; -1 for none. The other options are of commits that a crash undid, so
// no checkpoint is needed to choose.
func soleDurable(all []option) int {
	sole := -1
	for i, o := range all {
		switch {
		case len(o.durable) == 0:
		case sole >= 0, !o.firm():
			return -1
		default:
			sole = i
		}
	}
	return sole
}

// options groups equal copies, in the order of the sources.
func (h here) options() (all []option) {
	for _, f := range h.copies {
		i := slices.IndexFunc(all, func(o option) bool { return o.leaf == f.leaf })
		if i < 0 {
			i = len(all)
			all = append(all, option{leaf: f.leaf, record: f.record, durable: make(map[int]bool)})
		}
		o := &all[i]
		if !slices.Contains(o.from, f.source) {
			o.from = append(o.from, f.source)
		}
		if f.durable {
			o.durable[f.source] = true
		}
		o.checked = o.checked || f.checked
	}
	return all
}

// positions yields the copies of each position that a source has, in order.
func (p *Plan) positions(ctx context.Context) iter.Seq2[here, error] {
	return func(yield func(here, error) bool) {
		next := make([]int, len(p.Sources))
		for {
			at := eventstore.Position(0)
			for i, s := range p.Sources {
				if next[i] < len(s.Places) && (at == 0 || s.Places[next[i]].Position < at) {
					at = s.Places[next[i]].Position
				}
			}
			if at == 0 {
				return
			}
			if err := ctx.Err(); err != nil {
				yield(here{}, err)
				return
			}
			h := here{position: at}
			for i, s := range p.Sources {
				for ; next[i] < len(s.Places) && s.Places[next[i]].Position == at; next[i]++ {
					p.read(&h, i, s.Places[next[i]])
				}
			}
			if !yield(h, nil) {
				return
			}
		}
	}
}

// read reads a copy and adds it to h.
func (p *Plan) read(h *here, source int, at Place) {
	s := p.Sources[source]
	r, err := s.read(at)
	if err == nil {
		err = p.complete(&r)
	}
	if err != nil {
		h.trouble = fmt.Sprintf("%s: %v", s.Name, err)
		return
	}
	h.copies = append(h.copies, found{r, translog.Leaf(r.Body), source, at.Durable, s.Checked})
}

// complete decodes a record and checks that it agrees with its body. A record
// without a claim gets the claim of its body.
func (p *Plan) complete(r *eventstore.Stored) error {
	event, version, err := p.codec.DecodeVersion(*r)
	if err != nil {
		return err
	}
	r.Event = event
	claim := eventstore.ClaimOf(event, version)
	switch {
	case r.Claim == nil:
		r.Claim = claim
	case claim == nil || *claim != *r.Claim:
		return errors.New("record and event have different claims")
	}
	return nil
}
