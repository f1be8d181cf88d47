package edge

import (
	"fmt"
	"strings"
	"testing"
)

func TestURLFault(t *testing.T) {
	t.Parallel()
	for url, at := range map[string]int{ // 0: no fault
		"": 0, "https://shop.example:8443/a-._~!$&'()*+,;=:@/?b=c#d": 0, "https://[2001:db8::1]/": 0, "https://xn--80ak6aa92e.com/": 0,
		"https://shop.example/%D0%b0": 0, "%41": 0,
		`https://shop.example/"><b>`: 22, "https://shop.example/ a": 22, `https://shop.example\a`: 21, "https://shop.example/a|b": 23,
		"https://shop.example/^": 22, "https://shop.example/`": 22, "https://shop.example/{id}": 22, "https://магазин.рф/": 9, "a\x7f": 2, "\x00": 1,
		"ab%": 3, "ab%4": 3, "ab%zz": 3, "ab%4g": 3, "%%41": 1, "é": 1, "%C3%A9é": 7, "a\xff": 2,
	} {
		got := URLFault(url)
		if (got == "") != (at == 0) || at > 0 && !strings.Contains(strings.ToLower(got), fmt.Sprintf("character %d ", at)) {
			t.Errorf("%q: %q, want a fault at %d", url, got, at)
		}
	}
}
