package process

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	t.Parallel()
	const goRun = "go run ./cmd/payledger"
	kept := strings.Repeat("0123456789abcdef", 4) + "-d/payledger"
	for started, want := range map[string]string{
		"payledger": "payledger", "./payledger": "./payledger", "/opt/pay/payledger": "/opt/pay/payledger",
		"/home/me/go-build/payledger":                "/home/me/go-build/payledger",
		"/tmp/go-build3141592653/b001/exe/payledger": goRun,
		"/root/.cache/go-build/01/" + kept:           goRun,
		"/work/cache/fe/" + kept:                     goRun,
	} {
		if got := Name(started); got != want {
			t.Errorf("started as %s, the hint is %s, want %s", started, got, want)
		}
	}
}
