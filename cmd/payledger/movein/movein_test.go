package movein

import (
	"testing"

	"payledger/cmd/payledger/members"
)

// TestNewsOfPeersAlone: a name that is none of the peers' is not kept.
func TestNewsOfPeersAlone(t *testing.T) {
	t.Parallel()
	peers := []members.Address{{Name: "b"}, {Name: "c"}}
	n := newsOf(peers)
	n.of("b", 2500)
	n.of("stranger", 2500)
	if len(n.all) != len(peers) {
		t.Errorf("there are news of %d nodes, want %d", len(n.all), len(peers))
	}
	if why := n.missing(peers, 2500); len(why) != 1 {
		t.Errorf("missing: %q, want node c alone", why)
	}
	n.of("c", 100)
	if why := n.missing(peers, 2500); len(why) != 1 {
		t.Errorf("missing: %q, want that node c lacks events", why)
	}
	n.of("c", 2400)
	if why := n.missing(peers, 2500); len(why) != 0 {
		t.Errorf("missing: %q", why)
	}
}
