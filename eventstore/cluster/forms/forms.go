// Package forms knows which events the programs of a cluster's nodes can read, so that
// nodes can be upgraded one after the other while they serve.
//
// Each node says for each type of event which version it reads: that one and all before
// it. The sequencer takes up an event only if its own program and those of all other
// nodes can read it; anything else would end the part of the node that cannot. What a
// node that has become silent said last counts for SilentFor, so that a short disturbance
// does not shut it out. After that the others go on without it: it then stops in front of
// the first event that it cannot read, and goes on with a newer program.
//
// All of this is in memory alone. Before a node that has started admits anything, it has
// asked every other node once.
//
// What a node says is its own claim: one that says that it can read less holds up events,
// and each refusal names it.
package forms

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"payledger/eventstore"
)

const (
	// SilentFor is how long the last word of a node counts that answers no more.
	SilentFor = 10 * time.Minute

	maxTypes   = 256 // of events that a node may say it can read
	maxName    = 64  // bytes of one of them, and of a program's version
	maxLacking = 20  // that Lacks names
)

// ErrNotAsked: some node was not asked yet.
var ErrNotAsked = errors.New("it is not known yet what the programs of the other nodes can read")

// Program is what a node says of its program.
type Program struct {
	Version string `json:"version,omitzero"`
	// Reads is the newest version that it reads of each type of event. It reads all
	// before that one too. Empty: it does not say.
	Reads map[string]int `json:"reads,omitzero"`
}

// Book is what a node knows. Safe for concurrent use.
type Book struct {
	Program Program // the node's own

	node  string
	peers []string

	mu   sync.Mutex
	said map[string]said // by the nodes that were asked
}

// said is what a node said last.
type said struct {
	reads map[string]int
	at    time.Time
}

// New is the book of a node. If its program does not say what it can read, it reads
// everything, and nothing is refused.
func New(node string, p Program, peers []string) *Book {
	return &Book{Program: p, node: node, peers: peers, said: make(map[string]said)}
}

// Heard takes up what a node said when it was asked; zero: it did not answer.
func (b *Book) Heard(node string, p Program, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.said[node]
	if len(p.Reads) > 0 {
		s = said{p.Reads, at}
	}
	b.said[node] = s
}

// Admit reports whether all nodes can read an event, given its line: else the error is a
// *eventstore.TooOldError or, as long as that is not known, ErrNotAsked.
func (b *Book) Admit(line []byte, now time.Time) error {
	if len(b.Program.Reads) == 0 {
		return nil
	}
	form, ok := eventstore.FormOf(line)
	if !ok || b.Program.Reads[form.Type] < form.Version {
		return &eventstore.TooOldError{Node: b.node, Form: form}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.peers {
		s, asked := b.said[p]
		switch {
		case !asked:
			return ErrNotAsked
		case len(s.reads) > 0 && now.Sub(s.at) < SilentFor && s.reads[form.Type] < form.Version:
			return &eventstore.TooOldError{Node: p, Form: form}
		}
	}
	return nil
}

// Readable reports whether the node's own program can read a record: else the error is a
// *eventstore.UnreadableError.
func (b *Book) Readable(r *eventstore.Stored) error {
	if len(b.Program.Reads) == 0 {
		return nil
	}
	if form, ok := eventstore.FormOf(r.Body); !ok || b.Program.Reads[form.Type] < form.Version {
		return &eventstore.UnreadableError{Position: r.Position, Form: form}
	}
	return nil
}

// Check refuses what no node says of its program.
func (p Program) Check() error {
	switch {
	case len(p.Version) > maxName || !written(p.Version, "+~"):
		return fmt.Errorf("it says that its program is of the version %.70q", p.Version)
	case len(p.Reads) > maxTypes:
		return fmt.Errorf("it says that it reads %d types of events", len(p.Reads))
	}
	for name := range p.Reads {
		if len(name) > maxName || !written(name, "") {
			return fmt.Errorf("it says that it reads events of the type %.70q", name)
		}
	}
	return nil
}

// written reports whether a text has no other characters than names have, and these.
func written(text, others string) bool {
	return strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."+others) == ""
}

// Lacks names forms of events that other programs can read and this one cannot, at most
// maxLacking. If it does not say what it can read, nothing is known.
func (p Program) Lacks(others ...Program) (all []string) {
	if len(p.Reads) == 0 {
		return nil
	}
	newest := make(map[string]int)
	for _, other := range others {
		for name, version := range other.Reads {
			newest[name] = max(newest[name], version)
		}
	}
	for name, version := range newest {
		if p.Reads[name] < version {
			all = append(all, eventstore.Form{Type: name, Version: version}.String())
		}
	}
	slices.Sort(all)
	return all[:min(len(all), maxLacking)]
}
