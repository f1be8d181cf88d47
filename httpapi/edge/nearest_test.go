package edge

import "testing"

func TestNearestName(t *testing.T) {
	t.Parallel()
	known := []string{"amount", "currency", "description", "payload"}
	for name, want := range map[string]string{
		"amount": "amount", "Amount": "amount", "amuont": "amount", "amounts": "amount", "amoumt": "amount", "curency": "currency",
		"desciptin": "description", "payLoad": "payload", "colour": "", "x": "", "": "", "card_number": "", "über": "", "pay": "",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaamount": "",
	} {
		if got := nearest(name, known); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"ä", "a", 1}, {"flaw", "lawn", 2}} {
		if got := distance(c.a, c.b); got != c.want || got != distance(c.b, c.a) {
			t.Errorf("%s and %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
