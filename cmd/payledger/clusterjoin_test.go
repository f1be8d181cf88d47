package main

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/members"
	"payledger/notifier/health/healthtest"
)

// TestNodesOfAnotherFormat has a directory join a node whose program describes nodes in
// another format, and serves a directory that such a program has made.
func TestNodesOfAnotherFormat(t *testing.T) {
	t.Parallel()
	first, dir := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	does(t, "init", "--data", first)
	addresses := []string{"a=" + healthtest.FreeAddress(t), "b=" + healthtest.FreeAddress(t), "c=" + healthtest.FreeAddress(t)}
	does(t, append([]string{"cluster", "init", "--data", first}, addresses...)...)

	out, code := payledger(t, "cluster", "join", tokenOf(t, first, `{"member":{"format":"payledger cluster 2","members":3},"bytes":"?"}`), "--data", dir)
	if code != 1 || !strings.Contains(out, `is of the format "payledger cluster 2", and this program knows "payledger cluster 1": install the same payledger`) {
		t.Errorf("joining: exit code %d, %s", code, out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	out, code = payledger(t, "cluster", "join", tokenOf(t, first, `{"keys":{}}`), "--data", dir)
	if code != 1 || !strings.Contains(out, "makes no sense") {
		t.Errorf("without a member: exit code %d, %s", code, out)
	}

	editMember(t, first, strings.NewReplacer("payledger cluster 1", "payledger cluster 2", `"node": "a"`, `"node": ["a"]`).Replace)
	if out := refused(t, 3, first); !strings.Contains(out, `cluster.json is of the format "payledger cluster 2"`) || !strings.Contains(out, "Start that one") {
		t.Errorf("serving says %q", out)
	}
}

// tokenOf is a token for b of a server that answers as the first node of a cluster, with
// the certificate of that.
func tokenOf(t *testing.T, first, answer string) string {
	t.Helper()
	m, err := members.Load(datadir.Dir(first))
	if err != nil {
		t.Fatal(err)
	}
	conf, err := m.TLS()
	if err != nil {
		t.Fatal(err)
	}
	authority, _ := pem.Decode([]byte(m.Authority))
	conf.ClientAuth = tls.NoClientCert
	conf.Certificates[0].Certificate = append(conf.Certificates[0].Certificate, authority.Bytes)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, answer) }))
	server.TLS = conf
	server.StartTLS()
	t.Cleanup(server.Close)
	fingerprint := sha256.Sum256(authority.Bytes)
	return "b@" + server.Listener.Addr().String() + "/" + hex.EncodeToString(fingerprint[:]) + "/secret"
}
