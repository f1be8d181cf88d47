package edge

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"payledger/domain"
	"payledger/httpapi/wire"
)

// cursor says where a list goes on and under which filters. Its text is
// base64url of a checksum and of three lines: the list's operation, the place,
// and the filters as a query string. The checksum covers the project, so a
// cursor that was cut, altered by accident or given to another project is
// recognised. It protects nothing: a cursor shows no more than its list does.
type Cursor struct {
	Operation string
	Place     string // the id or position of the last row that was shown
	Filters   Query
}

const checksumSize = 8

func cursorChecksum(project string, body []byte) []byte {
	sum := sha256.Sum256(append([]byte("payledger cursor 1\x00"+project+"\x00"), body...))
	return sum[:checksumSize]
}

func (c Cursor) Encode(project string) string {
	values := make(url.Values, len(c.Filters))
	for name, v := range c.Filters {
		values.Set(name, v)
	}
	body := []byte(c.Operation + "\n" + c.Place + "\n" + values.Encode())
	return base64.RawURLEncoding.EncodeToString(append(cursorChecksum(project, body), body...))
}

// decodeCursor reads what encode has written for the same project and list.
func decodeCursor(text, project, operation string) (Cursor, error) {
	invalid := wire.Problem{Code: domain.InvalidCursor}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < checksumSize || strings.ContainsAny(text, "\r\n") {
		return Cursor{}, invalid
	}
	body := raw[checksumSize:]
	if !bytes.Equal(cursorChecksum(project, body), raw[:checksumSize]) {
		return Cursor{}, invalid
	}
	lines := strings.SplitN(string(body), "\n", 3)
	if len(lines) != 3 || lines[0] != operation {
		return Cursor{}, invalid
	}
	values, err := url.ParseQuery(lines[2])
	if err != nil {
		return Cursor{}, invalid
	}
	c := Cursor{Operation: operation, Place: lines[1], Filters: make(Query, len(values))}
	for name := range values {
		c.Filters[name] = values.Get(name)
	}
	return c, nil
}

// listRequest is a request for one page of a list.
type ListRequest struct {
	operation string
	Filters   Query
	Place     string // after which row, "" for the first page
	Limit     int
	Sized     bool // the request named the limit
}

// pageOf reads the query of a list. A cursor brings its filters along;
// repeating them is allowed, changing them is not.
func PageOf(x *Exchange, filters ...string) (ListRequest, error) {
	q, err := ParseQuery(x.Request.URL.RawQuery, append([]string{"limit", "cursor"}, filters...)...)
	if err != nil {
		return ListRequest{}, err
	}
	req := ListRequest{operation: x.Route.Operation, Filters: make(Query), Sized: q.Has("limit")}
	if req.Limit, err = q.Limit(); err != nil {
		return req, err
	}
	for _, name := range filters {
		if q.Has(name) {
			req.Filters[name] = q[name]
		}
	}
	if !q.Has("cursor") {
		return req, nil
	}
	c, err := decodeCursor(q["cursor"], x.Project.ID, req.operation)
	if err != nil {
		return req, err
	}
	for name, v := range req.Filters {
		if was, ok := c.Filters[name]; !ok || was != v {
			return req, BadParameter(name, "The cursor was made with another value of this filter. Leave it out, or start without a cursor.")
		}
	}
	req.Filters, req.Place = c.Filters, c.Place
	return req, nil
}

// replyPage answers one page. last is the place of its last row, "" when
// nothing follows.
func (x *Exchange) ReplyPage(req ListRequest, data any, last string) error {
	p := wire.Page{Data: data}
	if last != "" {
		next := Cursor{Operation: req.operation, Place: last, Filters: req.Filters}.Encode(x.Project.ID)
		p.NextCursor = &next
		link := url.Values{"cursor": {next}}
		if req.Sized {
			link.Set("limit", strconv.Itoa(req.Limit))
		}
		x.Header().Set("Link", "<"+x.Request.URL.EscapedPath()+"?"+link.Encode()+`>; rel="next"`)
	}
	return x.Reply(http.StatusOK, p)
}
