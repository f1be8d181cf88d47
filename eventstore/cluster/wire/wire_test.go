package wire

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// noise is a body that does not become smaller.
func noise(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

const mostGroups = 256

func paymentCommit(i int, expect eventstore.Position) eventstore.Commit {
	id := domain.ID{1, 15: byte(i)}
	return eventstore.Commit{ID: id, Claim: &eventstore.Claim{Key: domain.Digest{byte(i), 1}}, Record: eventstore.Record{
		Stream: eventstore.PaymentStream("prj_01M7W78FJBM8T4R7B5N0C1D2E3", id), Expect: expect, Body: []byte(`{}`),
	}}
}

func sampleCommits(n, size int) (commits []eventstore.Commit, request []byte) {
	for i := range n {
		c := paymentCommit(i%256, 0)
		c.Record.Body = noise(size)
		commits = append(commits, c)
	}
	return commits, EncodeCommits(commits)
}

// What nodes say to each other is read as it was written, and is dropped if it is
// longer or has more in it than a node ever writes.
func TestBoundsOfPeers(t *testing.T) {
	t.Parallel()
	want, request := sampleCommits(bolt.MaxGroupCommits, 100)
	if got, err := DecodeCommits(request); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%d commits, %v", len(got), err)
	}
	var groups []byte
	for i := range mostGroups {
		groups = AppendPart(groups, EncodeGroup(&bolt.Group{Number: uint64(5 + i)}))
	}
	if got, err := DecodeGroups(groups, 5, mostGroups); err != nil || len(got) != mostGroups {
		t.Errorf("%d groups, %v", len(got), err)
	}
	_, tooMany := sampleCommits(bolt.MaxGroupCommits+1, 100)
	_, tooLong := sampleCommits(20, eventstore.MaxBody)
	_, tooLarge := sampleCommits(1, eventstore.MaxBody+1)
	for what, b := range map[string][]byte{"too many commits": tooMany, "too many bytes": tooLong, "too large a body": tooLarge} {
		if _, err := DecodeCommits(b); err == nil {
			t.Errorf("%s are read", what)
		}
	}
	for what, b := range map[string][]byte{
		"too many groups": AppendPart(groups, EncodeGroup(&bolt.Group{Number: 5 + mostGroups})),
		"a gap":           AppendPart(nil, EncodeGroup(&bolt.Group{Number: 6})),
		"too many bytes":  make([]byte, MaxMessage+1),
	} {
		if _, err := DecodeGroups(b, 5, mostGroups); err == nil {
			t.Errorf("%s: read", what)
		}
	}
	if _, err := DecodeGroup(make([]byte, MaxMessage+1)); !errors.Is(err, ErrMalformed) {
		t.Error("a message of LOG has no bound")
	}

	// Answers that would not fit are asked for again.
	large := eventstore.Appended{Stored: eventstore.Stored{Position: 1, Sequence: 1, Stream: want[0].Record.Stream, Commit: want[0].ID, Claim: want[0].Claim, Body: noise(eventstore.MaxBody)}}
	results := make([]eventstore.Appended, bolt.MaxGroupCommits)
	for i := range results {
		results[i].Err = &eventstore.ClaimedError{Value: large.Stored}
	}
	out := EncodeAnswers(results)
	all, err := parts(out, len(results))
	if err != nil || len(all) != len(results) || all[0][0] != answerClaimed || all[len(all)-1][0] != answerUnknown {
		t.Errorf("%d answers in %d bytes, %v", len(all), len(out), err)
	}
}

// An answer that is not one to this commit is none.
func TestAnswerToAnotherCommit(t *testing.T) {
	t.Parallel()
	c, other := paymentCommit(1, 3), paymentCommit(2, 3)
	stored := func(c eventstore.Commit) eventstore.Stored {
		return eventstore.Stored{Position: 9, Prev: 3, Sequence: 2, Stream: c.Record.Stream, Commit: c.ID, Claim: c.Claim, Body: c.Record.Body}
	}
	for _, a := range []struct {
		answer eventstore.Appended
		want   bool
	}{
		{eventstore.Appended{Stored: stored(c)}, true},
		{eventstore.Appended{Stored: stored(other)}, false},
		{eventstore.Appended{Err: &eventstore.ConflictError{Actual: 4}}, true},
		{eventstore.Appended{Err: &eventstore.ConflictError{Actual: 3}}, false},
		{eventstore.Appended{Err: &eventstore.ClaimedError{Value: stored(c)}}, true},
		{eventstore.Appended{Err: &eventstore.ClaimedError{Value: stored(other)}}, false},
		{eventstore.Appended{Err: eventstore.ErrBusy}, true},
		{eventstore.Appended{Err: eventstore.ErrFull}, true},
		{eventstore.Appended{Err: ErrTooNew}, true},
		{eventstore.Appended{Err: eventstore.ErrUnconfirmed}, true},
		{eventstore.Appended{Err: &eventstore.TooOldError{Node: "node-b"}}, true},
		{eventstore.Appended{Err: &eventstore.TooOldError{Node: ""}}, false},
		{eventstore.Appended{Err: &eventstore.TooOldError{Node: "\x1b[2J"}}, false},
		{eventstore.Appended{Err: &eventstore.TooOldError{Node: "a-name-of-17-byte"}}, false},
		{eventstore.Appended{Err: ErrUnsettled}, false},
	} {
		if got, settled := answerOf(answerBytes(a.answer), c); settled != a.want || settled && a.answer.Err != nil && got.Err == nil {
			t.Errorf("%+v is read as %+v, %v", a.answer, got, settled)
		}
	}
}

// FuzzPeers: whatever a peer sends, it is refused, or it is what this node would write.
func FuzzPeers(f *testing.F) {
	_, request := sampleCommits(2, 10)
	f.Add(request)
	f.Add(AppendPart(nil, EncodeGroup(sampleGroup())))
	f.Add(answerBytes(eventstore.Appended{Err: &eventstore.ConflictError{Actual: 4}}))
	f.Add(binary.BigEndian.AppendUint64(nil, 17))
	f.Fuzz(func(t *testing.T, b []byte) {
		if commits, err := DecodeCommits(b); err == nil {
			for _, c := range commits {
				if err := c.Validate(); err != nil {
					t.Error(err)
				}
			}
			if again, err := DecodeCommits(EncodeCommits(commits)); err != nil || !reflect.DeepEqual(again, commits) {
				t.Errorf("%+v is read as %+v: %v", commits, again, err)
			}
		}
		groups, _ := DecodeGroups(b, 17, mostGroups)
		for i, g := range groups {
			if g.Number != 17+uint64(i) || len(g.Records) > bolt.MaxGroupCommits {
				t.Errorf("group %+v", g)
			}
		}
		c := paymentCommit(1, 0)
		if a, settled := answerOf(b, c); settled && a.Err == nil && (a.Commit != c.ID || a.Stream != c.Record.Stream) {
			t.Errorf("%+v is taken for an answer", a)
		}
		if n, ok := Numbers(b, 2); ok && len(n) != 2 {
			t.Error(n)
		}
	})
}
