package webhook

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// names is a name server in memory: it answers for every name what lookup
// says, and nothing else is ever asked.
type names struct {
	lookup func(name string) []netip.Addr

	mu    sync.Mutex
	asked []string
	wait  sync.WaitGroup
}

// resolver asks the name server. It ends with the test.
func (n *names) resolver(t testing.TB) *net.Resolver {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); n.wait.Wait() })
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		n.wait.Go(func() {
			defer server.Close()
			defer context.AfterFunc(ctx, func() { server.Close() })()
			for n.answer(server) == nil {
			}
		})
		return client, nil
	}}
}

// answer reads one question in the framing of TCP and answers it (RFC 1035).
func (n *names) answer(conn net.Conn) error {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return err
	}
	ask := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, ask); err != nil {
		return err
	}
	end, labels := 12, []string(nil)
	for ask[end] != 0 {
		labels = append(labels, string(ask[end+1:end+1+int(ask[end])]))
		end += 1 + int(ask[end])
	}
	kind := binary.BigEndian.Uint16(ask[end+1:])
	name := strings.Join(labels, ".")
	n.mu.Lock()
	n.asked = append(n.asked, name)
	found := n.lookup(name)
	n.mu.Unlock()

	out := append([]byte{0, 0}, ask[:end+5]...) // id, flags, counts, question
	out[4], out[5] = 0x81, 0x80
	if len(found) == 0 {
		out[5] |= 3 // no such name
	}
	count := 0
	for _, a := range found {
		if (kind == 1 && a.Is4()) || (kind == 28 && a.Is6()) {
			raw := a.AsSlice()
			out = append(out, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(raw)))
			out = append(out, raw...)
			count++
		}
	}
	binary.BigEndian.PutUint16(out[8:], uint16(count))
	binary.BigEndian.PutUint32(out[10:], 0) // neither authority nor additional records
	binary.BigEndian.PutUint16(out, uint16(len(out)-2))
	_, err := conn.Write(out)
	return err
}

func (n *names) questions() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.asked)
}

func TestNamesAnswer(t *testing.T) {
	t.Parallel()
	want := []netip.Addr{netip.MustParseAddr("127.7.7.7"), netip.MustParseAddr("2001:db8::7")}
	n := names{lookup: func(name string) []netip.Addr {
		if name == "shop.example" {
			return want
		}
		return nil
	}}
	r := n.resolver(t)
	got, err := r.LookupNetIP(t.Context(), "ip", "shop.example")
	if err != nil || len(got) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := r.LookupNetIP(t.Context(), "ip", "none.example."); err == nil {
		t.Errorf("got %v", got)
	}
}
