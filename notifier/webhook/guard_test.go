package webhook

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// special are the ranges of both IANA special-purpose registries, with
// multicast and what was once site-local or IPv4-compatible.
func special() []netip.Prefix {
	var all []netip.Prefix
	for p := range strings.FieldsSeq(`
		0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.0.0/29
		192.0.0.8/32 192.0.0.9/32 192.0.0.10/32 192.0.0.170/31 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24
		192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4
		240.0.0.0/4 255.255.255.255/32
		::/128 ::1/128 ::/96 ::ffff:0:0/104 ::ffff:7f00:0/104 ::ffff:a9fe:0/112 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32
		2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28 2001:20::/28
		2001:30::/28 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8`) {
		all = append(all, netip.MustParsePrefix(p))
	}
	return all
}

// samples are the first, the last and one address between.
func samples(p netip.Prefix) []netip.Addr {
	first := p.Masked().Addr()
	last, between := first.AsSlice(), first.AsSlice()
	for bit := p.Bits(); bit < first.BitLen(); bit++ {
		last[bit/8] |= 1 << (7 - bit%8)
		if bit%3 == 0 {
			between[bit/8] |= 1 << (7 - bit%8)
		}
	}
	l, _ := netip.AddrFromSlice(last)
	b, _ := netip.AddrFromSlice(between)
	return []netip.Addr{first, b, l}
}

// spellings are the ways to write an address as a host, without brackets,
// that some program somewhere understands. The first is the usual one.
func spellings(a netip.Addr) []string {
	if !a.Is4() {
		all := []string{a.String(), a.StringExpanded(), strings.ToUpper(a.String()), a.String() + "%lo", a.String() + "%1"}
		if a.Is4In6() {
			b := a.As16()
			all = append(all, fmt.Sprintf("::ffff:%x:%x", binary.BigEndian.Uint16(b[12:]), binary.BigEndian.Uint16(b[14:])))
		}
		return all
	}
	b := a.As4()
	n := binary.BigEndian.Uint32(b[:])
	high, low := n>>16, n&0xffff
	dotted := a.String()
	return []string{
		dotted, dotted + ".",
		fmt.Sprint(n), fmt.Sprintf("%#x", n), fmt.Sprintf("0X%X", n), fmt.Sprintf("%#o", n), fmt.Sprintf("0x%012x", n),
		fmt.Sprintf("%d.%d", b[0], n&0xffffff), fmt.Sprintf("%d.%d.%d", b[0], b[1], low), fmt.Sprintf("%#x.%#x", b[0], n&0xffffff),
		fmt.Sprintf("%#x.%#x.%#x.%#x", b[0], b[1], b[2], b[3]), fmt.Sprintf("%#o.%#o.%#o.%#o", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("%03d.%03d.%03d.%03d", b[0], b[1], b[2], b[3]), fmt.Sprintf("%d.%#x.%#o", b[0], b[1], low),
		strings.ReplaceAll(dotted, ".", "。"), strings.ReplaceAll(dotted, ".", "%2e"), "%" + fmt.Sprintf("%x", dotted[0]) + dotted[1:],
		strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return r - '0' + '０'
			}
			return r
		}, dotted),
		"::ffff:" + dotted, fmt.Sprintf("::ffff:%x:%x", high, low), fmt.Sprintf("0:0:0:0:0:FFFF:%X:%X", high, low),
		"::" + dotted, "64:ff9b::" + dotted, fmt.Sprintf("64:ff9b:1::%x:%x", high, low),
		fmt.Sprintf("2002:%x:%x::1", high, low), fmt.Sprintf("2001:0:%x:%x::", high, low), fmt.Sprintf("fe80::5efe:%x:%x", high, low),
		"::ffff:" + dotted + "%lo",
	}
}

// gate keeps a book of the addresses that the guard let pass. No connection
// is made: what passed is turned away after it.
type gate struct {
	mu     sync.Mutex
	passed []string
}

var errAtTheGate = errors.New("this test connects to nothing")

func (g *gate) behind(guard func(network, address string, c syscall.RawConn) error) func(network, address string, c syscall.RawConn) error {
	return func(network, address string, c syscall.RawConn) error {
		if err := guard(network, address, c); err != nil {
			return err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.passed = append(g.passed, address)
		return errAtTheGate
	}
}

// gated is a Sender whose connections end at the gate.
func gated(t *testing.T, n *names) (*Sender, *gate) {
	t.Helper()
	s, g := NewSender(Config{Resolver: n.resolver(t)}), new(gate)
	t.Cleanup(s.Close)
	s.dialer.Control = g.behind(s.dialer.Control)
	return s, g
}

func attempt(target string) Request {
	return Request{
		URL: target, ID: "01M7W7EYW0Q6V8B0N5R7T2M4C6", Attempt: 1, At: time.Now(), Body: []byte("{}"),
		Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
	}
}

// urlOf writes a host into a URL.
func urlOf(host string) string {
	if strings.Contains(host, ":") {
		host = "[" + strings.Replace(host, "%", "%25", 1) + "]"
	}
	return "https://" + host + "/hook"
}

// TestSpecialAddresses proves for all special ranges, however written, that
// neither the URL is accepted, nor a request with it leads to a connection,
// nor one to a name that resolves to the address; and that the dialer by
// itself, whose name server understands every spelling, makes none either.
func TestSpecialAddresses(t *testing.T) {
	t.Parallel()
	var now netip.Addr
	n := &names{lookup: func(string) []netip.Addr { return []netip.Addr{now} }}
	s, g := gated(t, n)
	tried := 0
	for _, p := range special() {
		for _, a := range samples(p) {
			now = a
			for _, host := range spellings(a) {
				tried++
				if err := s.Check(urlOf(host)); err == nil {
					t.Errorf("%s, %s: the URL is accepted", p, host)
				}
				before := n.questions()
				if o := s.Send(t.Context(), attempt(urlOf(host))); o.Class != ClassRefusedTarget || !o.Refused {
					t.Errorf("%s, %s: %+v", p, host, o)
				}
				if n.questions() != before {
					t.Errorf("%s, %s: a name server was asked about an address", p, host)
				}
				if c, err := s.plain(t.Context(), "tcp", net.JoinHostPort(host, "443")); err == nil {
					c.Close()
					t.Errorf("%s, %s: connected", p, host)
				}
			}
			o := s.Send(t.Context(), attempt(fmt.Sprintf("https://shop-%d.example/hook", tried)))
			if o.Class != ClassRefusedTarget || !o.Refused {
				t.Errorf("%s, a name with the address %s: %+v", p, a, o)
			}
		}
	}
	if len(g.passed) > 0 || tried < 2000 {
		t.Errorf("%d tried, %d let pass: %v", tried, len(g.passed), g.passed)
	}
}

// TestPublicAddresses is the other side: what is beside the special ranges
// gets as far as the gate.
func TestPublicAddresses(t *testing.T) {
	t.Parallel()
	var now netip.Addr
	n := &names{lookup: func(string) []netip.Addr { return []netip.Addr{now} }}
	s, g := gated(t, n)
	var want []string
	for text := range strings.FieldsSeq(`1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
		169.253.255.255 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 198.17.255.255 198.20.0.0 223.255.255.255
		2000::1 2001:200::1 2606:4700::1111 2003::1 3ffe::1`) {
		now = netip.MustParseAddr(text)
		for _, target := range []string{urlOf(text), "https://shop.example/hook", "https://shop.example:8443/hook"} {
			if err := s.Check(target); err != nil {
				t.Errorf("%s: %v", target, err)
			}
			if o := s.Send(t.Context(), attempt(target)); o.Class != ClassConnect || o.Refused {
				t.Errorf("%s, %s: %+v", target, text, o)
			}
			port := "443"
			if strings.Contains(target, ":8443") {
				port = "8443"
			}
			want = append(want, net.JoinHostPort(text, port))
		}
	}
	if !slices.Equal(g.passed, want) {
		t.Errorf("let pass %v\nwant %v", g.passed, want)
	}
}

// TestRebinding has names whose addresses change between two questions or are
// several at once: each connection is judged by the address it would go to.
func TestRebinding(t *testing.T) {
	t.Parallel()
	good, bad := netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("127.0.0.1")
	turn := 0
	n := &names{lookup: func(name string) []netip.Addr {
		if strings.HasPrefix(name, "both") {
			return []netip.Addr{bad, good, netip.MustParseAddr("fd00::1")}
		}
		turn++
		if turn <= 2 { // both kinds of addresses are asked for
			return []netip.Addr{good}
		}
		return []netip.Addr{bad}
	}}
	s, g := gated(t, n)
	for _, c := range []struct {
		target string
		class  Class
		passed []string
	}{
		{"https://rebind.example/", ClassConnect, []string{"1.1.1.1:443"}},
		{"https://rebind.example/", ClassRefusedTarget, nil},
		{"https://both.example/", ClassConnect, []string{"1.1.1.1:443"}},
	} {
		g.passed = nil
		o := s.Send(t.Context(), attempt(c.target))
		if o.Class != c.class || o.Refused != (c.class == ClassRefusedTarget) || !slices.Equal(g.passed, c.passed) {
			t.Errorf("%s: %+v, let pass %v; want %+v", c.target, o, g.passed, c)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	guarded, free := NewSender(Config{}), NewSender(Config{AllowPrivate: true})
	for target, want := range map[string]struct{ guarded, free bool }{
		"https://shop.example/hook?a=b":                     {true, true},
		"https://shop.example":                              {true, true},
		"https://shop.example.":                             {true, true},
		"https://shop.example:443/":                         {true, true},
		"https://SHOP.example:8443/":                        {true, true},
		"https://xn--e1afmkfd.xn--p1ai/":                    {true, true},
		"https://1.1.1.1/":                                  {true, true},
		"https://[2606:4700::1111]:8443/":                   {true, true},
		"https://a_b.example/":                              {true, true},
		"https://0xfeed.example/":                           {true, true},
		"http://shop.example/hook":                          {false, true},
		"https://shop.example:8080/":                        {false, true},
		"https://localhost/":                                {false, true},
		"https://LOCALHOST./":                               {false, true},
		"https://api.localhost/":                            {false, true},
		"https://intranet/":                                 {false, true},
		"http://127.0.0.1:8080/":                            {false, true},
		"http://[::1]:8080/":                                {false, true},
		"https://10.0.0.7/":                                 {false, true},
		"":                                                  {},
		"shop.example":                                      {},
		"//shop.example/":                                   {},
		"/hook":                                             {},
		"https:shop.example":                                {},
		"https:///hook":                                     {},
		"https://:443/":                                     {},
		"ftp://shop.example/":                               {},
		"gopher://127.0.0.1:443/":                           {},
		"unix:///run/x.sock":                                {},
		"https://user@shop.example/":                        {},
		"https://user:secret@shop.example/":                 {},
		"https://1.1.1.1@127.0.0.1/":                        {},
		"https://shop.example/#x":                           {},
		"https://shop.example/#":                            {},
		"https://shop.example:/":                            {},
		"https://shop.example:0/":                           {},
		"https://shop.example:65536/":                       {},
		"https://shop.example:0443/":                        {},
		"https://shop.example:https/":                       {},
		"https://shop..example/":                            {},
		"https://.example/":                                 {},
		"https://пример.рф/":                                {},
		"https://shop example/":                             {},
		"https://shop\\.example/":                           {},
		"https://127.1/":                                    {},
		"https://2130706433/":                               {},
		"https://0x7f.1/":                                   {},
		"https://shop.0x/":                                  {},
		"https://[::ffff:1.1.1.1]/":                         {false, true},
		"https://[fe80::1%25lo]/":                           {},
		"https://shop.example/\n":                           {},
		"https://" + strings.Repeat("a", 64) + ".example/":  {},
		"https://" + strings.Repeat("a.", 127) + "example/": {},
		"https://" + strings.Repeat("a", 63) + ".example/":  {true, true},
		"https://shop.example/" + strings.Repeat("a", 2000): {true, true},
	} {
		if err := guarded.Check(target); (err == nil) != want.guarded {
			t.Errorf("%s: %v", target, err)
		}
		if err := free.Check(target); (err == nil) != want.free {
			t.Errorf("%s with AllowPrivate: %v", target, err)
		}
		if u, err := url.Parse(target); err == nil && u.User != nil && strings.Contains(fmt.Sprint(guarded.Check(target)), "secret") {
			t.Errorf("%s: the error tells the password", target)
		}
	}
	for sender, want := range map[*Sender]string{guarded: "begin with https://", free: "begin with https:// or http://"} {
		if err := sender.Check("ftp://shop.example/"); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want it to say: %s", err, want)
		}
	}
}
