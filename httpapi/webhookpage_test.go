package httpapi

import (
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/httpapi/docs"
	"payledger/httpapi/edge"
)

// shown is the text of a page, without tags and with entities resolved.
func shown(page []byte) string {
	return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(string(page), ""))
}

func TestPageOnWebhooks(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.send("GET", "/docs/webhooks", nil).want(200, "")
	if policy := a.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(string(a.Body), "<script") {
		t.Errorf("%s", policy)
	}
	text := shown(a.Body)
	table := func(label string) (rows []string) {
		_, part, _ := strings.Cut(string(a.Body), `aria-label="`+label+`"`)
		part, _, _ = strings.Cut(part, "</table>")
		for _, m := range regexp.MustCompile(`<tr><td>(.*)</td></tr>`).FindAllStringSubmatch(part, -1) {
			rows = append(rows, strings.TrimSpace(shown([]byte(strings.ReplaceAll(m[1], "</td><td>", "|")))))
		}
		return rows
	}
	// The page shows the schedule in use.
	if got, want := table("Schedule of attempts"), []string{
		"1|at once|at once", "2|5 seconds|5 seconds", "3|1 minute 30 seconds|1 minute 35 seconds", "4|1 day 2 hours|1 day 2 hours",
	}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if !strings.Contains(text, "at most 4 attempts:") {
		t.Error("not as often as it is tried")
	}
	other := s.again(func(c *settings) { c.RetrySchedule = []time.Duration{time.Minute} })
	if page := shown(other.send("GET", "/docs/webhooks", nil).want(200, "").Body); !strings.Contains(page, "at most 1 attempt:") || strings.Contains(page, "1 day 2 hours") {
		t.Error("another schedule is not shown")
	}
	var kinds []string
	for _, row := range table("Kinds") {
		kind, rest, _ := strings.Cut(row, "|")
		when, outcome, _ := strings.Cut(rest, "|")
		if when == "" || (outcome == "yes") != slices.Contains(domain.FinalKinds(), domain.Kind(kind)) {
			t.Errorf("%s", row)
		}
		kinds = append(kinds, kind)
	}
	if want := edge.Texts(append(domain.Kinds(), domain.KindEndpointTest)); !slices.Equal(kinds, want) {
		t.Errorf("%v, want %v", kinds, want)
	}
	for _, part := range []string{
		"at most 16 endpoints", "within 15 seconds", "up to 6 hours", "nothing for 5 days", "listed for 30 days", "For 1 day every", "7 days is the longest",
		publicURL + "/v1/webhook-endpoints", "410", "whsec_", "webhook-id", "Retry-After", "delivery_superseded", "payledger listen", "--webhook-allow-private",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), part) {
			t.Errorf("nothing of %q", part)
		}
	}
	for _, r := range docs.Receivers() {
		code, err := docs.ReceiverFiles.ReadFile("receivers/" + r[0] + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, strings.TrimSpace(string(code))) {
			t.Errorf("the receiver in %s is not there as it is", r[1])
		}
	}
	for _, prefix := range []string{"", "/base"} {
		behind := s.again(func(c *settings) { c.PublicURL = publicURL + prefix })
		page := string(behind.send("GET", "/docs/webhooks", nil).want(200, "").Body)
		links := regexp.MustCompile(`href="([^"]+)"`).FindAllStringSubmatch(page, -1)
		if len(links) < 10 {
			t.Fatalf("%v", links)
		}
		for _, l := range links {
			path, ours := strings.CutPrefix(l[1], prefix+"/")
			switch {
			case strings.HasPrefix(l[1], "#"):
				if !strings.Contains(page, `id="`+l[1][1:]+`"`) {
					t.Errorf("%s leads nowhere", l[1])
				}
			case strings.HasPrefix(l[1], "../"):
				behind.send("GET", l[1][2:], nil).want(200, "")
			case ours && !strings.HasPrefix(l[1], "//"):
				behind.send("GET", "/"+path, nil).want(200, "")
			case l[1] != "https://www.standardwebhooks.com":
				t.Errorf("%s", l[1])
			}
		}
	}
	if !strings.Contains(string(docs.OpenAPI), "(docs/webhooks)") {
		t.Error("the documentation does not lead there")
	}
	bad := s.cfg
	bad.RetrySchedule = nil
	if _, err := New(bad.Config); err == nil {
		t.Error("a page without a schedule")
	}
}

// The sample body on the page fits the document.
func TestSampleNotificationFitsTheDocument(t *testing.T) {
	t.Parallel()
	checkSchema(t, "PaymentWebhook", docs.SampleNotification)
}

// The receiver in Go compiles against the present library.
func TestGoReceiverCompiles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the compiler is not started with -short")
	}
	code, err := docs.ReceiverFiles.ReadFile("receivers/go.txt")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "receiver.go")
	if err := os.WriteFile(name, code, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "vet", name)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
