package members

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/notifier/health/healthtest"
)

func instanceOf(t *testing.T, node string, log *healthtest.Buffer) *instance {
	t.Helper()
	m := &Member{Node: node, Members: []Address{{"a", "h:1"}, {"b", "h:2"}, {"c", "h:3"}}}
	i := newInstance(t.Context(), m, "machine "+node, zerolog.New(log))
	t.Cleanup(func() { i.end(nil) })
	return i
}

func (i *instance) says(t *testing.T) []byte {
	t.Helper()
	b, err := i.message()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestInstances: two instances of a node that hear each other through another node alone find
// each other, and the later one ends. An instance that is gone ends nothing.
func TestInstances(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log healthtest.Buffer
		gone, peer := instanceOf(t, "c", &log), instanceOf(t, "b", &log)
		time.Sleep(time.Minute)
		last := gone.says(t)
		peer.take(last)

		original := instanceOf(t, "c", &log)
		for range 3 {
			original.take(last)
			peer.take(original.says(t))
			original.take(peer.says(t)) // which has both
		}
		if original.ctx.Err() != nil || log.String() != "" {
			t.Fatalf("an instance that is gone ended the next one: %v %s", original.ctx.Err(), log.String())
		}

		time.Sleep(relayTime + time.Second)
		var all []announcement
		if err := json.Unmarshal(peer.says(t), &all); err != nil || len(all) != 1 {
			t.Errorf("it relays %d instances that are gone: %v", len(all)-1, err)
		}

		copied := instanceOf(t, "c", &log)
		for range 6 {
			peer.take(original.says(t))
			peer.take(copied.says(t))
			b := peer.says(t)
			original.take(b)
			copied.take(b)
		}
		if copied.ctx.Err() == nil || original.ctx.Err() != nil {
			t.Fatalf("the original ended: %v, the copy ended: %v", original.ctx.Err(), copied.ctx.Err())
		}
		if strings.Count(log.String(), "served twice") != 1 {
			t.Errorf("the original says %s", log.String())
		}
	})
}

// TestLastAnnouncementIsLost: of a copy that ended nobody has heard that it had heard of the
// original. The original says that it is served twice; and it says nothing of an instance that
// was gone before it began, although a wrong clock has given that the greater id.
func TestLastAnnouncementIsLost(t *testing.T) {
	t.Parallel()
	for what, earlier := range map[string]bool{"a copy": false, "an instance that was gone": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log healthtest.Buffer
				peer, other := instanceOf(t, "b", &log), instanceOf(t, "c", &log)
				other.own.Instance[0] = 255
				if earlier {
					peer.take(other.says(t))
				}
				original := instanceOf(t, "c", &log)
				time.Sleep(announceEvery + time.Millisecond)
				if !earlier {
					peer.take(other.says(t))
				}
				for range 2 * relayTime / announceEvery {
					time.Sleep(announceEvery)
					original.take(peer.says(t))
				}
				if says := strings.Contains(log.String(), "served twice"); says == earlier || original.ctx.Err() != nil {
					t.Errorf("the original ended: %v, and says %q", original.ctx.Err(), log.String())
				}
			})
		})
	}
}

// TestAnnouncementsBounds: what is longer or more than an announcement can be is dropped, and
// so is what comes from no member.
func TestAnnouncementsBounds(t *testing.T) {
	t.Parallel()
	var log healthtest.Buffer
	i := instanceOf(t, "c", &log)
	id := func(n int) domain.ID { return domain.ID{14: byte(n >> 8), 15: byte(n)} }
	message := func(count int, a announcement) []byte {
		t.Helper()
		all := make([]announcement, count)
		for at := range all {
			all[at] = a
		}
		b, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a := announcement{Node: "a", Instance: id(1)}
	copied := announcement{Node: "c", Instance: id(1), Other: i.own.Instance}
	long, ofNone := copied, copied
	long.Place, ofNone.Node = strings.Repeat("x", maxPlace+1), "d"
	for what, b := range map[string][]byte{
		"no JSON":      []byte("["),
		"an empty one": []byte("[]"),
		"too long":     append(message(1, copied), []byte(strings.Repeat(" ", maxMessage))...),
		"too many":     message(2+maxRelayed, copied),
		"a long place": message(1, long),
		"of no member": message(1, ofNone),
		"its own":      message(1, i.own),
	} {
		i.take(b)
		if len(i.recent) != 0 || i.own.Other != (domain.ID{}) || i.ctx.Err() != nil {
			t.Errorf("%s is taken up", what)
		}
	}

	a.Place = strings.Repeat("\x01", maxPlace)
	for n := range 3 * maxRelayed {
		a.Instance = id(n + 1)
		i.take(message(1, a))
	}
	if len(i.recent) != maxRelayed {
		t.Errorf("it keeps %d instances to relay, want %d", len(i.recent), maxRelayed)
	}
	b := i.says(t)
	if len(b) > maxMessage {
		t.Errorf("it announces %d bytes", len(b))
	}
	other := instanceOf(t, "b", &log)
	if other.take(b); len(other.recent) != 1 {
		t.Errorf("of a message that relays others, %d are kept to relay", len(other.recent))
	}
}
