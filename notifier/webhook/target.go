package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"code.dny.dev/ssrf"

	"payledger/notifier/connector/client"
)

// Check says what is wrong with the URL of an endpoint, in words for its owner, or returns nil. It
// checks only the URL: what a name resolves to is checked at every connection.
func (s *Sender) Check(target string) error {
	_, err := parseTarget(target, s.config.AllowPrivate)
	return err
}

// parseTarget reads a URL that may be called.
func parseTarget(target string, allowPrivate bool) (*url.URL, error) {
	u, err := url.Parse(target)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "":
		return nil, errors.New("not a URL such as https://shop.example/webhooks")
	case u.Scheme != "https" && !allowPrivate:
		return nil, errors.New("the URL must begin with https://")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("the URL must begin with https:// or http://")
	case u.User != nil:
		return nil, errors.New("a user name or password in the URL is not sent: verify the signature instead")
	case u.Fragment != "" || strings.Contains(target, "#"):
		return nil, errors.New("a URL to call has no fragment (#…)")
	}
	if err := checkPort(u.Port(), u.Host, allowPrivate); err != nil {
		return nil, err
	}
	if err := checkHost(u.Hostname(), allowPrivate); err != nil {
		return nil, err
	}
	return u, nil
}

func checkPort(port, host string, allowPrivate bool) error {
	if port == "" {
		if strings.HasSuffix(host, ":") {
			return errors.New("the port after the colon is missing")
		}
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return errors.New("the port is not a number from 1 to 65535")
	}
	if !allowPrivate && !slices.Contains(client.Ports(), uint16(n)) {
		return errors.New("only the ports 443 and 8443 are called")
	}
	return nil
}

// checkHost lets a name or an address pass. An address must be written the
// one usual way: 2130706433, 0x7f.1 and 127.1 are all 127.0.0.1 to some.
func checkHost(host string, allowPrivate bool) error {
	if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`%[]\`, r) }) {
		return errors.New("the host has characters that no host name has; write an international name in its xn-- form")
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if !allowPrivate && ssrf.New().SafeAddr(ip) != nil {
			return fmt.Errorf("%s is not a public address", ip)
		}
		return nil
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	labels := strings.Split(name, ".")
	last := labels[len(labels)-1]
	switch {
	case len(name) > 253 || slices.ContainsFunc(labels, func(l string) bool { return l == "" || len(l) > 63 }):
		return errors.New("the host is not a host name")
	case endsInNumber(last):
		return errors.New("an IP address is written as four decimal numbers, or in the form of IPv6 in brackets")
	case !allowPrivate && (len(labels) == 1 || last == "localhost"):
		return errors.New("the host is not a public name")
	}
	return nil
}

// endsInNumber is the rule of browsers for what is an address and no name.
func endsInNumber(last string) bool {
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}
