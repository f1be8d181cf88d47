package storetest

import (
	"errors"

	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/eventstore"
)

// checkModel compares a store with the simplest one that could be right: a
// list of records.
func checkModel(s *subject) {
	rapid.Check(s.TB, func(t *rapid.T) {
		m := &model{T: t, s: &subject{TB: s.TB, log: s.create(s.TB), create: s.create}}
		m.s.open()
		t.Repeat(map[string]func(*rapid.T){
			"append":    m.append,
			"duplicate": m.duplicate,
			"reopen":    func(*rapid.T) { m.s.reopen() },
			"":          m.compare,
		})
		m.s.verify()
		if s.Failed() {
			t.FailNow()
		}
	})
}

type model struct {
	*rapid.T
	s       *subject
	records []eventstore.Stored
	commits []eventstore.Commit
}

func (m *model) last(st eventstore.Stream) (r eventstore.Stored) {
	for _, x := range m.records {
		if x.Stream == st {
			r = x
		}
	}
	return r
}

func (m *model) holder(project string, c eventstore.Claim) (eventstore.Stored, bool) {
	for _, r := range m.records {
		if r.Claim != nil && *r.Claim == c && (c.Forever || r.Stream.Project == project) {
			return r, true
		}
	}
	return eventstore.Stored{}, false
}

func (m *model) append(t *rapid.T) {
	st := stream(rapid.SampledFrom([]string{"prj_a", "prj_b"}).Draw(t, "project"), rapid.IntRange(1, 3).Draw(t, "stream"))
	head := m.last(st)
	c := m.s.commit(st, head.Position)
	if rapid.IntRange(0, 4).Draw(t, "stale") == 0 {
		c.Record.Expect = eventstore.Position(rapid.IntRange(0, len(m.records)+1).Draw(t, "expect"))
	}
	if rapid.Bool().Draw(t, "claim") {
		c.Claim = &eventstore.Claim{
			Key: domain.Digest{byte(rapid.IntRange(1, 6).Draw(t, "key"))}, Forever: rapid.Bool().Draw(t, "for ever"),
		}
	}
	r, err := eventstore.AppendOne(m.s.Context(), m.s.store, c)
	if c.Claim != nil {
		if holder, taken := m.holder(st.Project, *c.Claim); taken {
			m.s.isClaimed(err, holder)
			return
		}
	}
	if c.Record.Expect != head.Position {
		m.s.isConflict(err, st, head.Position)
		return
	}
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
	m.s.same("Append", r, eventstore.Stored{
		Position: eventstore.Position(len(m.records) + 1), Stream: st, Sequence: head.Sequence + 1, Prev: head.Position,
		Commit: c.ID, At: domain.IDTime(c.ID).Time(), Claim: c.Claim, Body: c.Record.Body,
	})
	m.records, m.commits = append(m.records, r), append(m.commits, c)
}

func (m *model) duplicate(t *rapid.T) {
	if len(m.commits) == 0 {
		t.Skip("nothing to send again")
	}
	i := rapid.IntRange(0, len(m.commits)-1).Draw(t, "commit")
	c, r := m.commits[i], m.records[i]
	if c.Claim == nil && m.last(r.Stream).Position != r.Position {
		t.Skip("it is not its stream's last, and claims nothing")
	}
	got, err := eventstore.AppendOne(m.s.Context(), m.s.store, c)
	if err != nil {
		t.Fatalf("Append again: %v", err)
	}
	m.s.same("Append again", got, r)
}

func (m *model) compare(t *rapid.T) {
	m.s.same("Scan", m.s.scan(0, eventstore.Filter{}), m.records)
	for _, project := range []string{"prj_a", "prj_b"} {
		for n := 1; n <= 3; n++ {
			var want []eventstore.Stored
			for _, r := range m.records {
				if r.Stream == stream(project, n) {
					want = append(want, r)
				}
			}
			m.s.same("Load", m.s.load(stream(project, n)), want)
		}
		for key := byte(1); key <= 6; key++ {
			got, ok, err := m.s.store.Claimed(m.s.Context(), project, domain.Digest{key})
			want, taken := m.holder(project, eventstore.Claim{Key: domain.Digest{key}})
			if err != nil && !errors.Is(err, eventstore.ErrClosed) || ok != taken {
				t.Fatalf("Claimed: %v, %v, want %v", ok, err, taken)
			}
			m.s.same("Claimed", got, want)
		}
	}
	if m.s.Failed() {
		t.FailNow()
	}
}
