//go:build !race

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"payledger/httpapi/ui/uitest"
	"payledger/notifier/health/healthtest"
)

// TestBehindNginx runs nginx in front of a server. With the sample, streams pass
// through. Where it buffers everything, whatever payledger asks for, the pages poll.
func TestBehindNginx(t *testing.T) {
	t.Parallel()
	s := start(t, "demo")
	secure, buffering, slow := startNginx(t, strings.TrimPrefix(s.BaseURL, "http://"))

	for name, base := range map[string]string{"the sample": "https://" + secure, "a slow link": "http://" + slow} {
		t.Run("live answers pass through "+name, func(t *testing.T) {
			t.Parallel()
			passesEvents(t, s, base)
		})
	}
	t.Run("pages", func(t *testing.T) {
		t.Parallel()
		browser := uitest.Browser(t)
		for name, address := range map[string]string{"a buffering proxy": buffering, "a slow link": slow} {
			t.Run("the account follows behind "+name, func(t *testing.T) {
				t.Parallel()
				followsAccount(t, uitest.OpenTab(t, browser), s, "http://"+address)
			})
			t.Run("the payment page follows behind "+name, func(t *testing.T) {
				t.Parallel()
				followsPayment(t, uitest.OpenTab(t, browser), s, "http://"+address)
			})
		}
	})
}

// passesEvents follows GET /v1/events under an address until a payment made
// meanwhile appears.
func passesEvents(t *testing.T, s *server, base string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.ProjectID+":"+s.APIKey)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	id := s.do(t, 201, "POST", "/v1/payments", `{"amount":"10"}`).text(t, "id")
	for lines := bufio.NewScanner(resp.Body); !strings.Contains(lines.Text(), id); {
		if !lines.Scan() {
			t.Fatalf("the stream ended before the payment came: %v", lines.Err())
		}
	}
}

// followsAccount signs in under an address, sees a payment in the list, and waits
// until the page of events shows the next one without a reload.
func followsAccount(t *testing.T, w *uitest.Tab, s *server, address string) {
	t.Helper()
	create := func() string { return s.do(t, 201, "POST", "/v1/payments", `{"amount":"10"}`).text(t, "id") }
	css := func(selector string) chromedp.CSS { return chromedp.CSS(selector) }
	id := create()
	w.Do(chromedp.Navigate(address+"/account?lang=en"), chromedp.WaitVisible(css("#project")),
		chromedp.SendKeys(css("#project"), s.ProjectID), chromedp.SendKeys(css("#key"), s.APIKey),
		chromedp.Click(css(`[data-hook="signin"] button`)), chromedp.WaitVisible(css(`[data-hook="search"]`)),
		chromedp.Navigate(address+"/account/payments"), chromedp.WaitVisible(css(`[data-hook="payments"] [data-id="`+id+`"]`)),
		chromedp.Navigate(address+"/account/events"), chromedp.WaitReady(css(`[data-feed]`)))
	uitest.Eval[bool](w, `window.same = true`)
	id = create()
	w.Do(chromedp.WaitReady(css(`[data-feed] a[href*="` + id + `"]`)))
	if same := uitest.Eval[bool](w, `window.same === true`); !same {
		t.Error("the page was loaded anew")
	}
}

// followsPayment opens the page of a payment under an address, pays it, and waits
// until the page shows that without a reload.
func followsPayment(t *testing.T, w *uitest.Tab, s *server, address string) {
	t.Helper()
	created := s.do(t, 201, "POST", "/v1/payments", `{"amount":"10"}`)
	instructions, ok := created.object(t)["instructions"].(map[string]any)
	if !ok {
		t.Fatalf("%s", created.Body)
	}
	w.Do(chromedp.Navigate(strings.Replace(fmt.Sprint(instructions["url"]), s.BaseURL, address, 1)), chromedp.WaitVisible(`button[value="pay"]`))
	uitest.Eval[bool](w, `window.same = true`)
	s.do(t, 200, "POST", "/v1/sandbox/payments/"+created.text(t, "id"), `{"outcome":"paid"}`)
	w.Do(chromedp.WaitVisible(`[data-status="paid"]`))
	if same := uitest.Eval[bool](w, `window.same === true`); !same {
		t.Error("the page was loaded anew")
	}
}

// startNginx runs nginx in front of a server: the sample's TLS server, one that
// buffers and compresses everything, streams included, and one with a slow link.
func startNginx(t *testing.T, upstream string) (secure, buffering, slow string) {
	t.Helper()
	nginx := requireTool(t, "nginx", "nginx")
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // nginx's workers may be another user's
		t.Fatal(err)
	}
	certificate(t, dir)
	secure, buffering, slow = healthtest.FreeAddress(t), healthtest.FreeAddress(t), healthtest.FreeAddress(t)
	sample := deployed(t, "nginx.conf")
	for from, to := range map[string]string{
		"server 127.0.0.1:8080;":                 "server " + upstream + ";",
		"listen 443 ssl http2;":                  "listen " + secure + " ssl http2;",
		"listen [::]:443 ssl http2;":             "",
		"listen 80;":                             "listen " + healthtest.FreeAddress(t) + ";",
		"listen [::]:80;":                        "",
		"/etc/ssl/pay.example.com/fullchain.pem": dir + "/cert.pem",
		"/etc/ssl/pay.example.com/privkey.pem":   dir + "/key.pem",
	} {
		if !strings.Contains(sample, from) {
			t.Fatalf("nginx.conf has no %q", from)
		}
		sample = strings.ReplaceAll(sample, from, to)
	}
	conf := "daemon off; pid " + dir + "/pid; error_log stderr; worker_processes 1;\nevents {}\nhttp {\naccess_log off;\n"
	for _, what := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		conf += what + "_temp_path " + dir + "/" + what + ";\n"
	}
	const pass = "; location / { proxy_pass http://payledger; proxy_http_version 1.1; proxy_set_header Host $http_host; "
	conf += sample + "server { listen " + buffering + pass + "proxy_buffering on; proxy_ignore_headers X-Accel-Buffering;" +
		" gzip on; gzip_types *; gzip_proxied any; gzip_min_length 0; } }\n" +
		"server { listen " + slow + pass + "limit_rate 4k; } }\n}\n" // bytes a second for each answer
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(nginx, "-t", "-q", "-e", "stderr", "-c", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(nginx, "-e", "stderr", "-c", file)
	var stderr healthtest.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("nginx:\n%s", stderr.String())
		}
	})
	for _, address := range []string{secure, buffering, slow} {
		eventually(t, "nginx listens", func() bool {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				conn.Close()
			}
			return err == nil
		})
	}
	return secure, buffering, slow
}
