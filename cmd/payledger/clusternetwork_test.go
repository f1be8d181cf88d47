package main

import (
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"payledger/cmd/payledger/datadir"
	"payledger/notifier/health/healthtest"
)

// network carries what the nodes of a cluster say to each other. It can hold back what
// one of them says to another, without a word to either: nothing of it is lost, as with
// TCP over a broken line, and it arrives once the line is whole again.
type network struct {
	all sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	held    map[way]bool
	delay   map[way]time.Duration // of each piece, of up to 16 KiB
	open    map[net.Conn]bool
	over    bool
}

// way leads from the node that speaks to the one that hears.
type way struct{ from, to int }

// newNetwork puts itself between the nodes, which have not run yet: each of them gets
// addresses of its own for the other two.
func newNetwork(t testing.TB, n *nodes) *network {
	t.Helper()
	w := &network{held: map[way]bool{}, delay: map[way]time.Duration{}, open: map[net.Conn]bool{}}
	w.changed = sync.NewCond(&w.mu)
	own := addressesOf(t, n.dirs[0])
	var listeners []net.Listener
	for from, dir := range n.dirs {
		var change []string
		for to := range n.dirs {
			if from == to {
				continue
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			listeners = append(listeners, l)
			change = append(change, `"`+own[to]+`"`, `"`+l.Addr().String()+`"`)
			w.all.Go(func() { w.accept(l, way{from, to}, own[to]) })
		}
		editMember(t, dir, strings.NewReplacer(change...).Replace)
	}
	t.Cleanup(func() { w.end(listeners...) })
	return w
}

// end closes all connections.
func (w *network) end(listeners ...net.Listener) {
	w.mu.Lock()
	w.over = true
	w.changed.Broadcast()
	for c := range w.open {
		c.Close()
	}
	w.mu.Unlock()
	for _, l := range listeners {
		l.Close()
	}
	w.all.Wait()
}

// editMember changes the file that says which node of a cluster a directory is.
func editMember(t testing.TB, dir string, change func(string) string) {
	t.Helper()
	name := datadir.Dir(dir).Cluster()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(change(string(b))), 0o600); err != nil {
		t.Fatal(err)
	}
}

// accept takes what one node dials to reach another one.
func (w *network) accept(l net.Listener, dialled way, target string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		w.all.Go(func() { w.connect(c, dialled, target) })
	}
}

func (w *network) connect(near net.Conn, dialled way, target string) {
	defer w.enter(near)()
	if !w.pass(dialled) { // nobody hears that one of them dials
		return
	}
	far, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer w.enter(far)()
	var back sync.WaitGroup
	back.Go(func() { w.carry(near, far, way{dialled.to, dialled.from}) })
	w.carry(far, near, dialled)
	back.Wait()
}

// enter notes a connection, which is closed at the latest when all is over.
func (w *network) enter(c net.Conn) (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[c] = true
	if w.over {
		c.Close()
	}
	return func() {
		w.mu.Lock()
		delete(w.open, c)
		w.mu.Unlock()
		c.Close()
	}
}

// carry brings what is said one way until its end, of which the other side hears too.
func (w *network) carry(to, from net.Conn, on way) {
	defer to.Close()
	piece := make([]byte, 16<<10)
	for {
		n, err := from.Read(piece)
		if !w.pass(on) {
			return
		}
		if n > 0 {
			if _, err := to.Write(piece[:n]); err != nil {
				from.Close()
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits until a way is open, and for as long as it delays.
func (w *network) pass(on way) bool {
	w.mu.Lock()
	for w.held[on] && !w.over {
		w.changed.Wait()
	}
	delay, over := w.delay[on], w.over
	w.mu.Unlock()
	time.Sleep(delay)
	return !over
}

// change sets which ways are held back and how the others delay, until the next change.
func (w *network) change(held []way, delay map[way]time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.held)
	for _, one := range held {
		w.held[one] = true
	}
	w.delay = delay
	w.changed.Broadcast()
}

// heal opens all ways.
func (w *network) heal() { w.change(nil, nil) }

// to and from are the ways on which others speak to a node, and it to them.
func to(node int) []way {
	return []way{{(node + 1) % 3, node}, {(node + 2) % 3, node}}
}

func from(node int) []way {
	return []way{{node, (node + 1) % 3}, {node, (node + 2) % 3}}
}

// between are both ways between two nodes.
func between(a, b int) []way { return []way{{a, b}, {b, a}} }

// slow delays ways.
func slow(ways []way, by time.Duration) map[way]time.Duration {
	all := map[way]time.Duration{}
	for _, one := range ways {
		all[one] = by
	}
	return all
}

// TestNetwork: what the network holds back arrives later, whole; what is said the other
// way arrives meanwhile.
func TestNetwork(t *testing.T) {
	t.Parallel()
	n := &nodes{dirs: []string{t.TempDir(), t.TempDir(), t.TempDir()}}
	var own []string
	for range n.dirs {
		own = append(own, healthtest.FreeAddress(t))
	}
	for _, dir := range n.dirs {
		if err := os.WriteFile(datadir.Dir(dir).Cluster(), []byte(`["`+strings.Join(own, `","`)+`"]`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := newNetwork(t, n)
	l, err := net.Listen("tcp", own[1])
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", addressesOf(t, n.dirs[0])[1])
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	says := func(from, to net.Conn, what string, within time.Duration) bool {
		t.Helper()
		if _, err := from.Write([]byte(what)); err != nil {
			t.Fatal(err)
		}
		return hears(t, to, what, within)
	}
	if !says(near, far, "one", patience) || !says(far, near, "two", patience) {
		t.Fatal("the network does not connect")
	}
	w.change(from(0), slow(to(0), 50*time.Millisecond))
	began := time.Now()
	if says(near, far, "three", 100*time.Millisecond) {
		t.Error("what is held back arrives")
	}
	if !says(far, near, "four", patience) || time.Since(began) < 50*time.Millisecond {
		t.Error("the other way is not as it should be")
	}
	w.heal()
	if !hears(t, far, "three", patience) {
		t.Error("what was held back does not arrive")
	}
}

// hears reports whether a connection brings this within a time.
func hears(t *testing.T, c net.Conn, what string, within time.Duration) bool {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 0, len(what))
	for len(b) < len(what) {
		n, err := c.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err != nil {
			break
		}
	}
	return string(b) == what
}
