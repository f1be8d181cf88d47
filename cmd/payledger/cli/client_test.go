package cli

import (
	"strings"
	"testing"

	"payledger/domain"
	"payledger/httpapi/wire"
)

// A command has no idempotency key: what may have happened is looked up first.
func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	p := &Problem{Problem: wire.Problem{Code: domain.Unconfirmed, Detail: "Repeat it with the same Idempotency-Key."}}
	if got := p.Error(); strings.Contains(got, "Key") || !strings.Contains(got, "Check whether it is done") {
		t.Error(got)
	}
}
