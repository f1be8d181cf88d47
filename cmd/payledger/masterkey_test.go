package main

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"payledger/cmd/payledger/datadir"
)

// TestMasterKeyRotation adds a master key as the runbook says: new links are made
// with it, old ones still open.
func TestMasterKeyRotation(t *testing.T) {
	t.Parallel()
	d := datadir.Dir(t.TempDir() + "/data")
	s := start(t, "demo", "--data", string(d))
	newLink := func() string {
		answer := s.do(t, 201, "POST", "/v1/payments", `{"amount":"1"}`).object(t)
		link, err := url.Parse(answer["instructions"].(map[string]any)["url"].(string))
		if err != nil {
			t.Fatal(err)
		}
		return link.Path
	}
	before := newLink()
	s.stop()

	f, err := os.OpenFile(d.MasterKey(), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("2 " + strings.Repeat("5a", 32) + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s = start(t, "demo", "--data", string(d))
	after := newLink()
	if !strings.HasPrefix(before, "/p/1") || !strings.HasPrefix(after, "/p/2") {
		t.Errorf("links before and after the rotation: %s, %s", before, after)
	}
	for _, link := range []string{before, after} {
		if page := s.do(t, 200, "GET", link, ""); !strings.Contains(string(page.Body), "Demo shop") {
			t.Errorf("%s does not show the payment: %s", link, page.Body)
		}
	}
}
