package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// container makes a control group of processes with so many bytes of memory. It is
// removed at the end, when they have ended.
func container(t *testing.T, memory int) (procs string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making a control group needs root")
	}
	name := fmt.Sprintf("payledger-test-%d", os.Getpid())
	for parent, limit := range map[string]string{"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"} {
		dir := filepath.Join(parent, name)
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			eventually(t, "the control group is removed", func() bool {
				err := os.Remove(dir)
				return err == nil || errors.Is(err, os.ErrNotExist)
			})
		})
		f, err := os.OpenFile(filepath.Join(dir, limit), os.O_WRONLY, 0) // the kernel has made it
		if err != nil {
			continue
		}
		_, err = f.WriteString(strconv.Itoa(memory))
		if errors.Join(err, f.Close()) == nil {
			return filepath.Join(dir, "cgroup.procs")
		}
	}
	t.Skip("this system makes no control group with a limit of memory, even for root")
	return ""
}

// TestSmallContainer holds 200,000 payments, each of which an endpoint is notified of, in a
// container of 350 MiB, while a merchant looks at the account.
func TestSmallContainer(t *testing.T) {
	inLong(t)
	const memory, payments, clients = 350 << 20, 200_000, 32
	procs := container(t, memory)
	args := []string{"demo", "--json", "--listen=127.0.0.1:0", "--webhook-allow-private", "--data=" + t.TempDir() + "/d"}
	cmd := exec.Command("sh", append([]string{"-c", `echo $$ >"$0"; exec payledger "$@"`, procs}, args...)...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GOMEMLIMIT=") && !strings.HasPrefix(v, "GOGC=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	s, err := runServer(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	var heard atomic.Int64
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard.Add(1) }))
	t.Cleanup(hook.Close)
	s.do(t, 201, "POST", "/v1/webhook-endpoints", `{"url":"`+hook.URL+`","kinds":["payment.awaiting_payment"]}`)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	merchant := http.Client{Jar: jar}
	if resp, err := merchant.PostForm(s.BaseURL+"/account/signin", url.Values{"project": {s.ProjectID}, "key": {s.APIKey}}); err != nil || resp.StatusCode != 200 {
		t.Fatalf("signing in: %v, %v", resp, err)
	}

	var left atomic.Int64
	left.Store(payments)
	var load sync.WaitGroup
	client := http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	for range clients {
		load.Go(func() {
			for left.Add(-1) >= 0 {
				req, err := http.NewRequestWithContext(t.Context(), "POST", s.BaseURL+"/v1/payments", strings.NewReader(`{"amount":"1500.00","description":"order-1042","payload":{"cart":7}}`))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+s.ProjectID+":"+s.APIKey)
				req.Header.Set("Content-Type", "application/json")
				resp, err := client.Do(req)
				if err != nil {
					t.Errorf("the server does not answer: %v", err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 201 {
					t.Errorf("POST: %d", resp.StatusCode)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { load.Wait(); close(done) }()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-time.After(time.Second):
		}
		resp, err := merchant.Get(s.BaseURL + "/account/payments")
		if err != nil {
			t.Fatalf("the account does not answer: %v", err)
		}
		page, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || over && !bytes.Contains(page, []byte("order-1042")) {
			t.Errorf("the account: %d, %v", resp.StatusCode, err)
		}
	}
	if heard.Load() == 0 {
		t.Error("no notification arrived")
	}
	rss, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	for line := range strings.Lines(string(rss)) {
		if strings.HasPrefix(line, "VmHWM") || strings.HasPrefix(line, "VmRSS") {
			t.Log(strings.TrimSpace(line))
		}
	}
	t.Logf("%d notifications arrived", heard.Load())
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.stderr)
	}
}
