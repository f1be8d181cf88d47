package edge

import (
	"fmt"
	"strings"
)

// URLFault says where a text has a character that no URL has (RFC 3986, section 2), and what to
// write instead; "" where it has none. net/url accepts many of them. Such a text is harmless on our
// own pages, which escape it, but it is passed on to exports, providers and logs.
//
// It is asked where people's requests come in, not in the domain: URLs that were recorded
// before stay possible.
func URLFault(s string) string {
	at := 0 // the character, counted from 1
	for i, r := range s {
		at++
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("-._~:/?#[]@!$&'()*+,;=", r):
		case r == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
		case r == '%':
			return fmt.Sprintf("The percent sign at character %d begins no escape such as %%20: write the sign itself as %%25.", at)
		default:
			return fmt.Sprintf("Character %d is one that no URL has: percent-encode it, or write an international host name in its xn-- form.", at)
		}
	}
	return ""
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
