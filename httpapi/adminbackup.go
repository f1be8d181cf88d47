package httpapi

import (
	"io"
	"net/http"
	"strconv"

	"payledger/eventstore"
)

// positionHeader tells the position of the last event in a copy of the log.
const positionHeader = "Payledger-Position"

// backup answers GET /admin/backup: the file of the event log as it is at one
// moment, of Content-Length bytes. A copy that breaks off is shorter.
func (a *admin) backup(x *exchange) error {
	if _, err := parseQuery(x.r.URL.RawQuery); err != nil {
		return err
	}
	if x.r.Method == http.MethodHead {
		x.WriteHeader(http.StatusOK)
		return nil
	}
	var out *stream
	err := a.cfg.Backup(x.ctx(), func(last eventstore.Position, size int64) (io.Writer, error) {
		x.Header().Set(positionHeader, strconv.FormatUint(uint64(last), 10))
		x.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		out = x.stream("application/octet-stream")
		return out, nil
	})
	if err != nil {
		return err
	}
	return out.flush()
}
