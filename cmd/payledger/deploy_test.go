package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func deployed(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestUnit checks the unit with systemd-analyze, and how much it restricts.
func TestUnit(t *testing.T) {
	t.Parallel()
	analyze := requireTool(t, "systemd-analyze", "systemd")
	program, err := exec.LookPath("payledger")
	if err != nil {
		t.Fatal(err)
	}
	unit := strings.ReplaceAll(deployed(t, "payledger.service"), "/usr/local/bin/payledger", program)
	file := filepath.Join(t.TempDir(), "payledger.service")
	if err := os.WriteFile(file, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "--man=no", "verify", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.Contains(unit, "\nExecReload="+program+" routes reload --data /var/lib/payledger\n") {
		t.Error("systemctl reload does not read the routes file again")
	}
	// 2.0 of 10: the lower the better.
	if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=20", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	// The flags and exit codes that the unit uses.
	if help := done(t, "serve", "--help"); !strings.Contains(help, "$PAYLEDGER_PUBLIC_URL") || !strings.Contains(help, "$PAYLEDGER_ROUTES") {
		t.Errorf("serve --help:\n%s", help)
	}
}

// TestCaddy checks its configuration with Caddy.
func TestCaddy(t *testing.T) {
	t.Parallel()
	caddy := requireTool(t, "caddy", "caddy")
	cmd := exec.Command(caddy, "validate", "--adapter", "caddyfile", "--config", "deploy/Caddyfile")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_DATA_HOME=", "XDG_CONFIG_HOME=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestImageInstructions: there is no Docker here to build the file, so the test
// looks for what makes the image small and harmless.
func TestImageInstructions(t *testing.T) {
	t.Parallel()
	text := deployed(t, "Dockerfile")
	build, image, ok := strings.Cut(text, "\nFROM scratch\n")
	if !ok || strings.Contains(image, "FROM ") || strings.Contains(image, "RUN ") {
		t.Error("the image is not from scratch")
	}
	if strings.Contains(deployed(t, "Dockerfile.dockerignore"), "testdata") {
		t.Error("the build sees less than the commit has, so the image's version is +dirty")
	}
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(goMod(t))
	if !strings.Contains(build, "FROM golang:"+goVersion[1]+"-") || !strings.Contains(build, "CGO_ENABLED=0 go build") {
		t.Errorf("it is not built with Go %s and without cgo", goVersion[1])
	}
	for _, line := range []string{
		"USER 65532:65532", `ENTRYPOINT ["/payledger"]`, `CMD ["serve", "--data", "/data", "--listen", "0.0.0.0:8080"]`, "VOLUME /data",
		"COPY --from=build /root-of-image/ /",
	} {
		if !strings.Contains(image, "\n"+line+"\n") && !strings.HasPrefix(image, line+"\n") && !strings.HasSuffix(image, line+"\n") {
			t.Errorf("the image lacks %q", line)
		}
	}
}

func goMod(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// certificate writes cert.pem and key.pem.
func certificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"pay.example.com"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
