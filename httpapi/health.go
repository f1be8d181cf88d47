package httpapi

import (
	"errors"
	"net/http"
	"strings"

	"payledger/eventstore"
	"payledger/httpapi/edge"
)

// livez answers GET /livez: the process is there.
func (a *api) livez(x *edge.Exchange) error {
	x.ReplyBytes(http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
	return nil
}

// readyz answers GET /readyz: whether requests are served, or why not. Delayed background work does
// not make the ledger unready, since payments are still recorded; the body names it.
func (a *api) readyz(x *edge.Exchange) error {
	if err := a.cfg.Ready(); err != nil {
		detail := "The service is not ready. The operator finds the reason in its log."
		if errors.As(err, new(*eventstore.SuspendedError)) {
			detail = "Nothing new is recorded, because the event log is damaged or its file is not at its place; reading works. The operator finds what to do in the server's log."
		}
		return errors.Join(edge.Unavailable("1", detail), err)
	}
	body := "ok\n"
	if waiting := a.cfg.Degraded(); len(waiting) > 0 {
		body = "degraded\n" + strings.Join(waiting, "\n") + "\n"
	}
	x.ReplyBytes(http.StatusOK, "text/plain; charset=utf-8", []byte(body))
	return nil
}
