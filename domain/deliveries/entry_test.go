package deliveries_test

import (
	"strings"
	"testing"

	"payledger/domain"
	"payledger/domain/deliveries"
)

// Each entry has one text, which is short, and no other text is read.
func TestTextOfEntries(t *testing.T) {
	t.Parallel()
	id := domain.ID{1, 160, 112, 116, 98, 90, 26, 100, 54, 67, 17, 187, 4, 24, 14, 3}
	for text, want := range map[string]deliveries.Entry{
		"0 " + id.String() + " 3 begun":                          {Payment: id, Sequence: 3, What: deliveries.Begun},
		"12 " + id.String() + " 3 delivered - 200 12":            {Endpoint: 12, Payment: id, Sequence: 3, What: deliveries.Delivered, Status: 200, Took: 12},
		"0 " + id.String() + " 3 failed timeout 0 15000 5321 30": {Payment: id, Sequence: 3, What: deliveries.Failed, Class: "timeout", Took: 15000, Wait: 5321, Pause: 30},
		"0 " + id.String() + " 3 parked refused_target":          {Payment: id, Sequence: 3, What: deliveries.Parked, Class: "refused_target"},
		"0 " + id.String() + " 3 requested " + id.String() + " payment.paid 9": {
			Payment: id, Sequence: 3, What: deliveries.Requested, Event: id, Kind: domain.KindPaymentPaid, Position: 9,
		},
		"0 " + id.String() + " 3 held": {Payment: id, Sequence: 3, What: deliveries.Held},
	} {
		if got := want.Text(); string(got) != text {
			t.Errorf("%s, want %s", got, text)
		}
		if len(text) > 70 && want.What != deliveries.Requested {
			t.Errorf("%s has %d bytes", text, len(text))
		}
		if got, err := deliveries.Text(text).Entry(); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		for _, wrong := range []string{
			"", text + " ", " " + text, text + " 0", strings.ToLower(text), strings.Replace(text, " 3 ", " 03 ", 1), strings.Replace(text, " 3 ", " -3 ", 1),
			strings.Replace(text, "0 ", "-1 ", 1), text[:len(text)/2], strings.Replace(text, " 3 ", " ", 1),
		} {
			if got, err := deliveries.Text(wrong).Entry(); err == nil && wrong != text {
				t.Errorf("%q was read as %+v", wrong, got)
			}
		}
	}
}
