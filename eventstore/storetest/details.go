package storetest

import (
	"bytes"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/eventstore"
)

func (s *subject) detailed(st eventstore.Stream, key byte, text string) eventstore.Commit {
	c := s.claiming(st, 0, key)
	c.Record.Details = append(bytes.Repeat([]byte{key}, eventstore.SaltSize), text...)
	return c
}

func (s *subject) erasing(st eventstore.Stream, after eventstore.Position) eventstore.Commit {
	c := s.commit(st, after)
	c.Record.Erases = true
	return c
}

// Details come back exactly, by every way of reading, until a record erases them: then by none.
// The erasure touches no other record, and its own stream's first record alone.
func checkDetails(s *subject) {
	long := strings.Repeat("ж", (eventstore.MaxDetails-eventstore.SaltSize)/2)
	texts := []string{`{"description":"order-1","payload":{}}`, long, "\x00", `{"description":"order-4","payload":{}}`, "the last"}
	var first []eventstore.Stored
	for i, text := range texts {
		first = append(first, s.add(s.detailed(stream("a", i), byte(i+1), text)))
	}
	bare := s.add(s.commit(stream("a", 99), 0))
	second := s.add(s.commit(first[1].Stream, first[1].Position))
	s.wantDetails(texts, nil)
	s.reopen()
	s.wantDetails(texts, nil)

	s.add(s.erasing(first[0].Stream, first[0].Position))
	s.add(s.erasing(second.Stream, second.Position))
	s.add(s.erasing(bare.Stream, bare.Position))
	s.wantDetails(texts, []int{0, 1})
	s.reopen()
	s.wantDetails(texts, []int{0, 1})

	// Again, and in one group with what it erases.
	s.add(s.erasing(first[0].Stream, s.head(first[0].Stream)))
	made, beside := s.detailed(stream("a", 5), 6, "gone at once"), s.detailed(stream("a", 6), 7, "stays")
	for _, a := range s.store.Append(s.Context(), made, beside, s.erasing(made.Record.Stream, s.last()+1)) {
		if a.Err != nil {
			s.Fatalf("Append: %v", a.Err)
		}
	}
	all := append(slices.Clone(texts), "gone at once", "stays")
	s.wantDetails(all, []int{0, 1, 5})
	s.reopen()
	s.wantDetails(all, []int{0, 1, 5})

	for name, break1 := range map[string]func(*eventstore.Commit){
		"only a salt":          func(c *eventstore.Commit) { c.Record.Details = c.Record.Details[:eventstore.SaltSize] },
		"too long":             func(c *eventstore.Commit) { c.Record.Details = make([]byte, eventstore.MaxDetails+1) },
		"not the first record": func(c *eventstore.Commit) { c.Record.Stream, c.Record.Expect = bare.Stream, bare.Position+1 },
	} {
		c := s.detailed(stream("b", 1), 200, "text")
		c.Claim = nil
		break1(&c)
		if _, err := eventstore.AppendOne(s.Context(), s.store, c); err == nil {
			s.Errorf("details that are %s were taken", name)
		}
	}
}

// head is the position of a stream's last record.
func (s *subject) head(st eventstore.Stream) eventstore.Position {
	s.Helper()
	all := s.load(st)
	return all[len(all)-1].Position
}

// wantDetails checks that the first record of stream n has the details of that number, without those
// that are gone.
func (s *subject) wantDetails(texts []string, gone []int) {
	s.Helper()
	want := func(n int) []byte {
		if slices.Contains(gone, n) {
			return nil
		}
		return append(bytes.Repeat([]byte{byte(n + 1)}, eventstore.SaltSize), texts[n]...)
	}
	has := make(map[eventstore.Position][]byte)
	for n := range texts {
		all := s.load(stream("a", n))
		for i, r := range all {
			if i == 0 {
				has[r.Position] = want(n)
			}
			if !bytes.Equal(r.Details, has[r.Position]) || r.Event != nil {
				s.Errorf("Load: record %d of stream %d has details %.60q, want %.60q", i, n, r.Details, has[r.Position])
			}
		}
		r, ok, err := s.store.Claimed(s.Context(), "a", domain.Digest{byte(n + 1), 31: 1})
		if err != nil || !ok || !bytes.Equal(r.Details, want(n)) {
			s.Errorf("Claimed: %v, %v, details %.60q, want %.60q", ok, err, r.Details, want(n))
		}
	}
	for _, r := range s.scan(0, eventstore.Filter{}) {
		if !bytes.Equal(r.Details, has[r.Position]) {
			s.Errorf("Scan: position %d has details %.60q, want %.60q", r.Position, r.Details, has[r.Position])
		}
	}
}
