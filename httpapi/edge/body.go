package edge

import (
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"payledger/domain"
	"payledger/httpapi/wire"
)

// MaxBody is the longest request body, in bytes.
const MaxBody = 16 << 10

// readBody reads the body of a request to a route that needs one: it checks first its media type,
// then its length.
//
// Where a body may be left out, a request without one need not declare it
// either.
func (x *Exchange) readBody() error {
	if x.Route.Optional && x.Request.ContentLength == 0 {
		x.Body = []byte("{}")
		return nil
	}
	if !isJSON(x.Request.Header) {
		return wire.Problem{Code: domain.UnsupportedMediaType}.With("Accept", "application/json")
	}
	tooLarge := func() error { return wire.Problem{Code: domain.BodyTooLarge}.With("Connection", "close") }
	most := cmp.Or(int64(x.Route.Most), MaxBody)
	if x.Request.ContentLength > most {
		return tooLarge()
	}
	var body []byte
	var err error
	if n := x.Request.ContentLength; n > 0 {
		body = make([]byte, n)
		if _, err = io.ReadFull(x.Request.Body, body); err == nil {
			err = x.Request.Body.Close() // nobody needs to look for more
		}
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(x.ResponseWriter, x.Request.Body, most))
	}
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return tooLarge()
	case err != nil:
		detail := "The body ended before it was complete. Send as many bytes as Content-Length says, or a well-formed chunked body."
		if errors.Is(err, os.ErrDeadlineExceeded) {
			detail = "The body did not arrive in time. Send all of it at once, and as many bytes as Content-Length says."
		}
		return wire.Problem{Code: domain.MalformedJSON, Detail: detail}.With("Connection", "close")
	}
	if x.Body = body; x.Route.Optional && len(body) == 0 {
		x.Body = []byte("{}")
	}
	return nil
}

// isJSON reports whether the body is declared as plain JSON in UTF-8: one
// Content-Type line that says application/json, with no parameter but
// charset=utf-8, and no Content-Encoding at all.
func isJSON(h http.Header) bool {
	types := h["Content-Type"]
	if len(types) != 1 || len(h["Content-Encoding"]) > 0 || strings.Contains(types[0], "*") {
		return false
	}
	if types[0] == "application/json" {
		return true
	}
	media, params, err := mime.ParseMediaType(types[0])
	if err != nil || media != "application/json" {
		return false
	}
	charset, ok := params["charset"]
	if !ok {
		return len(params) == 0
	}
	return len(params) == 1 && strings.EqualFold(charset, "utf-8")
}
