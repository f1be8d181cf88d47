package admin

import (
	"io"
	"net/http"
	"strconv"

	"payledger/eventstore"
	"payledger/httpapi/edge"
)

// positionHeader has the position of the last event in a copy of the log.
const positionHeader = "Payledger-Position"

// backup answers GET /admin/backup: the file of the event log as it is at one
// moment, of Content-Length bytes. A copy that breaks off is shorter.
func (a *admin) backup(x *edge.Exchange) error {
	if _, err := x.Query(); err != nil {
		return err
	}
	if x.Request.Method == http.MethodHead {
		x.WriteHeader(http.StatusOK)
		return nil
	}
	var out *edge.Exchange
	err := a.cfg.Backup(x.Context(), func(last eventstore.Position, size int64) (io.Writer, error) {
		x.Header().Set(positionHeader, strconv.FormatUint(uint64(last), 10))
		x.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		out = x.Stream("application/octet-stream")
		return out, nil
	})
	if err != nil {
		return err
	}
	return out.Flush()
}
