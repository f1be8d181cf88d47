package edge

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"payledger/domain"
	"payledger/httpapi/wire"
)

// Cursor says where a list continues and with which filters. Its text is base64url of a checksum
// and of three lines: the list's operation, the last row, and the filters as a query string. The
// checksum covers the list's owner, so a cursor that was cut, altered by accident or made for
// another list is recognised. It protects nothing: a cursor shows no more than its list does.
type Cursor struct {
	Operation string
	After     string // the id or position of the last row that was shown
	Filters   Query
}

const checksumSize = 8

func cursorChecksum(owner string, body []byte) []byte {
	sum := sha256.Sum256(append([]byte("payledger cursor 1\x00"+owner+"\x00"), body...))
	return sum[:checksumSize]
}

// Encode is the cursor's text, for lists of one owner.
func (c Cursor) Encode(owner string) string {
	values := make(url.Values, len(c.Filters))
	for name, v := range c.Filters {
		values.Set(name, v)
	}
	body := []byte(c.Operation + "\n" + c.After + "\n" + values.Encode())
	return base64.RawURLEncoding.EncodeToString(append(cursorChecksum(owner, body), body...))
}

// decodeCursor reads what Encode has written for the same owner and list.
func decodeCursor(text, owner, operation string) (Cursor, error) {
	invalid := wire.Problem{Code: domain.InvalidCursor}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < checksumSize || strings.ContainsAny(text, "\r\n") ||
		!bytes.Equal(cursorChecksum(owner, raw[checksumSize:]), raw[:checksumSize]) {
		return Cursor{}, invalid
	}
	lines := strings.SplitN(string(raw[checksumSize:]), "\n", 3)
	if len(lines) != 3 || lines[0] != operation {
		return Cursor{}, invalid
	}
	values, err := url.ParseQuery(lines[2])
	if err != nil {
		return Cursor{}, invalid
	}
	c := Cursor{Operation: operation, After: lines[1], Filters: make(Query, len(values))}
	for name := range values {
		c.Filters[name] = values.Get(name)
	}
	return c, nil
}

// List is a request for one page of a list.
type List struct {
	Filters Query
	After   string // the row, "" for the first page
	Limit   int    // rows of a page
	Sized   bool   // the request named the limit

	operation, owner string // whose cursors fit
}

// ParseList reads the query of a list, which has these filters besides limit and cursor. A cursor
// contains its filters; repeating them is allowed, changing them is not. owner is whose list it is:
// the project, with the object where the path names one. Cursors of another operation or owner do
// not fit.
func ParseList(values url.Values, operation, owner string, filters ...string) (List, error) {
	q, err := ParseQuery(values, append([]string{"limit", "cursor"}, filters...)...)
	if err != nil {
		return List{}, err
	}
	l := List{operation: operation, owner: owner, Filters: make(Query), Sized: q.Has("limit")}
	if l.Limit, err = q.Limit(); err != nil {
		return l, err
	}
	for _, name := range filters {
		if q.Has(name) {
			l.Filters[name] = q[name]
		}
	}
	if !q.Has("cursor") {
		return l, nil
	}
	c, err := decodeCursor(q["cursor"], owner, operation)
	if err != nil {
		return l, err
	}
	for name, v := range l.Filters {
		if in, ok := c.Filters[name]; !ok || in != v {
			return l, BadParameter(name, "The cursor was made with another value of this filter. Leave the filter out, or start without a cursor.")
		}
	}
	l.Filters, l.After = c.Filters, c.After
	return l, nil
}

// List is the request for a page of a list, as ParseList reads it.
func (x *Exchange) List(operation, owner string, filters ...string) (List, error) {
	values, err := x.Values()
	if err != nil {
		return List{}, err
	}
	return ParseList(values, operation, owner, filters...)
}

// PageOf is a page of a list. last is the cursor's After for its last row, "" when nothing follows.
func PageOf[T any](l List, rows []T, last string) wire.Page[T] {
	p := wire.Page[T]{Data: rows}
	if last != "" {
		next := Cursor{Operation: l.operation, After: last, Filters: l.Filters}.Encode(l.owner)
		p.NextCursor = &next
	}
	return p
}

// ReplyPage answers a page, with a link to the next one.
func ReplyPage[T any](x *Exchange, p wire.Page[T]) error { return x.ReplyPart(p, p.NextCursor) }

// ReplyPart is ReplyPage for what has other members, too. next is the cursor in it.
func (x *Exchange) ReplyPart(part any, next *string) error {
	if next != nil {
		link := url.Values{"cursor": {*next}}
		if limit := x.Request.URL.Query().Get("limit"); limit != "" {
			link.Set("limit", limit)
		}
		x.Header().Set("Link", "<"+x.Outside(x.Request.URL.EscapedPath())+"?"+link.Encode()+`>; rel="next"`)
	}
	return x.Reply(http.StatusOK, part)
}
