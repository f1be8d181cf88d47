package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"payledger/domain"
)

// cursor says where a list goes on and under which filters. Its text is
// base64url of a checksum and of three lines: the list's operation, the place,
// and the filters as a query string. The checksum covers the project, so a
// cursor that was cut, altered by accident or given to another project is
// recognised. It protects nothing: a cursor shows no more than its list does.
type cursor struct {
	operation string
	place     string // the id or position of the last row that was shown
	filters   query
}

const checksumSize = 8

func cursorChecksum(project string, body []byte) []byte {
	sum := sha256.Sum256(append([]byte("payledger cursor 1\x00"+project+"\x00"), body...))
	return sum[:checksumSize]
}

func (c cursor) encode(project string) string {
	values := make(url.Values, len(c.filters))
	for name, v := range c.filters {
		values.Set(name, v)
	}
	body := []byte(c.operation + "\n" + c.place + "\n" + values.Encode())
	return base64.RawURLEncoding.EncodeToString(append(cursorChecksum(project, body), body...))
}

// decodeCursor reads what encode has written for the same project and list.
func decodeCursor(text, project, operation string) (cursor, error) {
	invalid := problem{Code: domain.InvalidCursor}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < checksumSize || strings.ContainsAny(text, "\r\n") {
		return cursor{}, invalid
	}
	body := raw[checksumSize:]
	if !bytes.Equal(cursorChecksum(project, body), raw[:checksumSize]) {
		return cursor{}, invalid
	}
	lines := strings.SplitN(string(body), "\n", 3)
	if len(lines) != 3 || lines[0] != operation {
		return cursor{}, invalid
	}
	values, err := url.ParseQuery(lines[2])
	if err != nil {
		return cursor{}, invalid
	}
	c := cursor{operation: operation, place: lines[1], filters: make(query, len(values))}
	for name := range values {
		c.filters[name] = values.Get(name)
	}
	return c, nil
}

// listRequest is a request for one page of a list.
type listRequest struct {
	operation string
	filters   query
	place     string // after which row, "" for the first page
	limit     int
	sized     bool // the request named the limit
}

// pageOf reads the query of a list. A cursor brings its filters along;
// repeating them is allowed, changing them is not.
func pageOf(x *exchange, filters ...string) (listRequest, error) {
	q, err := parseQuery(x.r.URL.RawQuery, append([]string{"limit", "cursor"}, filters...)...)
	if err != nil {
		return listRequest{}, err
	}
	req := listRequest{operation: x.route.operation, filters: make(query), sized: q.has("limit")}
	if req.limit, err = q.limit(); err != nil {
		return req, err
	}
	for _, name := range filters {
		if q.has(name) {
			req.filters[name] = q[name]
		}
	}
	if !q.has("cursor") {
		return req, nil
	}
	c, err := decodeCursor(q["cursor"], x.project.ID, req.operation)
	if err != nil {
		return req, err
	}
	for name, v := range req.filters {
		if was, ok := c.filters[name]; !ok || was != v {
			return req, badParameter(name, "The cursor was made with another value of this filter. Leave it out, or start without a cursor.")
		}
	}
	req.filters, req.place = c.filters, c.place
	return req, nil
}

// page is the answer of a list.
type page struct {
	Data       any     `json:"data"`
	NextCursor *string `json:"next_cursor"` // null on the last page
}

// replyPage answers one page. last is the place of its last row, "" when
// nothing follows.
func (x *exchange) replyPage(req listRequest, data any, last string) error {
	p := page{Data: data}
	if last != "" {
		next := cursor{operation: req.operation, place: last, filters: req.filters}.encode(x.project.ID)
		p.NextCursor = &next
		link := url.Values{"cursor": {next}}
		if req.sized {
			link.Set("limit", strconv.Itoa(req.limit))
		}
		x.Header().Set("Link", "<"+x.r.URL.EscapedPath()+"?"+link.Encode()+`>; rel="next"`)
	}
	return x.reply(http.StatusOK, p)
}
