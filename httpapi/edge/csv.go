package edge

import (
	"net/http"
	"strings"
)

const CSVType = "text/csv"

// csvRows is how many rows of a CSV answer are read and written at once.
const csvRows = 1000

// asCSV reports whether a list was asked for as CSV.
func (x *Exchange) AsCSV() bool {
	x.Header().Add("Vary", "Accept")
	return Accepts(x.Request.Header, CSVType)
}

// replyCSV answers a list as CSV: all its rows, or one page when the request
// named a limit. next answers the next page's rows; each page has its own time,
// and before each but the first recheck says whether the caller may still read.
func (x *Exchange) ReplyCSV(req ListRequest, columns []string, recheck func() error, next func(limit int) (rows [][]string, more bool, err error)) error {
	limit := csvRows
	if req.Sized {
		limit = req.Limit
	}
	rows, more, err := next(limit)
	if err != nil {
		return err
	}
	out := x.Stream(CSVType + "; charset=utf-8; header=present")
	body, err := AppendCSV(nil, columns...)
	for err == nil {
		for _, row := range rows {
			if body, err = AppendCSV(body, row...); err != nil {
				return err
			}
		}
		if _, err := out.Write(body); err != nil {
			return err
		}
		if !more || req.Sized || x.Request.Method == http.MethodHead {
			return out.Flush()
		}
		body = body[:0]
		x.within.renew(maxTime)
		if err = recheck(); err == nil {
			rows, more, err = next(limit)
		}
	}
	return err
}

// accepts reports whether Accept names the media type.
func Accepts(h http.Header, media string) bool {
	for _, line := range h.Values("Accept") {
		for part := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(name), media) {
				return true
			}
		}
	}
	return false
}
