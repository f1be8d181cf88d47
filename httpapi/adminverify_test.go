package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/eventstore/audit"
	"payledger/httpapi/admin"
)

// evidenceOf parses the lines of an answer.
func evidenceOf(t *testing.T, body []byte) []admin.Line {
	t.Helper()
	var all []admin.Line
	for line := range bytes.SplitSeq(bytes.TrimSpace(body), []byte("\n")) {
		var l admin.Line
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, l)
	}
	if all[len(all)-1].Done == nil {
		t.Fatalf("the last line is not the last: %s", body)
	}
	return all
}

func reportOf(t *testing.T, lines []admin.Line) *audit.Report {
	t.Helper()
	for _, l := range lines {
		if l.Report != nil {
			return l.Report
		}
	}
	t.Fatal("no report")
	return nil
}

func TestAdminVerify(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	m.pay(`{"amount":1}`).want(201, "")
	m.pay(`{"amount":2}`).want(201, "")

	lines := evidenceOf(t, s.adminDo("POST", "/admin/verify", "{}").want(200, "").Body)
	if lines[0].Progress == nil {
		t.Errorf("no progress: %+v", lines)
	}
	r := reportOf(t, lines)
	if !r.OK() || r.Found > 0 || r.Integrity.Outcome != audit.OK || r.Completeness.Outcome != audit.NotChecked || r.Projections.Outcome != audit.OK {
		t.Errorf("%+v", r)
	}

	bad := `{"verifier_keys":[],"checkpoints":[{"name":"mine","note":"x","beside":false}]}`
	r = reportOf(t, evidenceOf(t, s.adminDo("POST", "/admin/verify", bad).want(200, "").Body))
	if r.OK() || r.Findings[0].Kind != audit.BadCheckpoint {
		t.Errorf("%+v", r)
	}

	long := func(n int) string {
		const before, after = `{"checkpoints":[{"name":"long","note":"`, `"}]}`
		return before + strings.Repeat("x", n-len(before)-len(after)) + after
	}
	s.adminDo("POST", "/admin/verify", long(admin.MaxVerifyRequest)).want(200, "")
	s.adminDo("POST", "/admin/verify", long(admin.MaxVerifyRequest+1)).want(413, domain.BodyTooLarge)

	s.store.Damage(3)
	r = reportOf(t, evidenceOf(t, s.adminDo("POST", "/admin/verify", "{}").want(200, "").Body))
	if r.FirstBad != 3 || r.Found != 1 || r.Projections.Outcome != audit.NotChecked {
		t.Errorf("%+v", r)
	}

	s.adminDo("POST", "/admin/verify", `{"nothing":1}`).want(400, domain.MalformedJSON)
	for _, key := range []string{`"x"`, `5`, `null`} {
		for _, member := range []string{"verifier_keys", "witness_keys"} {
			s.adminDo("POST", "/admin/verify", `{"`+member+`":[`+key+`]}`).want(400, domain.InvalidParameter)
		}
	}
	s.adminDo("GET", "/admin/verify", "").want(405, domain.MethodNotAllowed)
}

func TestAdminReplay(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	id := m.pay(`{"amount":1,"payload":{"x":"\u003c<"}}`).want(201, "").object().ID
	before, err := s.store.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.pay(`{"amount":2}`).want(201, "")
	replay := func(request string) []admin.Line {
		t.Helper()
		return evidenceOf(t, s.adminDo("POST", "/admin/replay", request).want(200, "").Body)
	}
	payments := func(lines []admin.Line) (n int) {
		for _, l := range lines {
			if l.Payment != nil {
				n++
			}
		}
		return n
	}
	if n := payments(replay("{}")); n != 2 {
		t.Errorf("%d payments", n)
	}
	if n := payments(replay(fmt.Sprintf(`{"position":%d}`, before))); n != 1 {
		t.Errorf("%d payments at %d", n, before)
	}
	if n := payments(replay(`{"position":0}`)); n != 0 {
		t.Errorf("%d payments at 0", n)
	}
	if n := payments(replay(`{"time":"2001-01-01T00:00:00Z"}`)); n != 0 {
		t.Errorf("%d payments in 2001", n)
	}
	one := s.adminDo("POST", "/admin/replay", `{"payment":"`+id+`"}`).want(200, "").Body
	if n := payments(evidenceOf(t, one)); n != 1 || !strings.Contains(string(one), `"payload":{"x":"\u003c<"}`) {
		t.Errorf("%s", one)
	}
	check := replay(`{"check":true}`)
	if c := check[len(check)-2].Comparison; c == nil || !c.Same() {
		t.Errorf("%+v", check)
	}

	for _, request := range []string{`{"check":"maybe"}`, `{"position":-1}`, `{"time":"yesterday"}`, `{"payment":"x"}`, `{"nothing":1}`} {
		s.adminDo("POST", "/admin/replay", request).want(400, domain.MalformedJSON)
	}
	s.adminDo("POST", "/admin/replay", `{"position":99999}`).want(400, domain.InvalidParameter)
	s.adminDo("POST", "/admin/replay", `{"payment":"`+strings.Repeat("0", 26)+`"}`).want(404, domain.PaymentNotFound)
}

// A replay of a damaged log breaks off, so that it cannot be mistaken for a complete
// one.
func TestAdminReplayCutShort(t *testing.T) {
	t.Parallel()
	if res, body := cutShort(t, "POST", "/admin/replay", "{}"); body != nil && res.StatusCode == 200 {
		t.Errorf("ended in order after %s", body)
	}
}
