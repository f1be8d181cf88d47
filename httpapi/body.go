package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"payledger/domain"
)

// MaxBody is the longest request body, in bytes.
const MaxBody = 16 << 10

// readBody takes the body of a request to a route that needs one: first what
// it claims to be, then how long it is.
func (x *exchange) readBody() error {
	if !isJSON(x.r.Header) {
		return problem{Code: domain.UnsupportedMediaType}.with("Accept", "application/json")
	}
	tooLarge := problem{Code: domain.BodyTooLarge}.with("Connection", "close")
	if x.r.ContentLength > MaxBody {
		return tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(x.ResponseWriter, x.r.Body, MaxBody))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return tooLarge
	case err != nil:
		return problem{
			Code:   domain.MalformedJSON,
			Detail: "The body ended before it was complete. Send as many bytes as Content-Length says, or a well-formed chunked body.",
		}.with("Connection", "close")
	}
	x.body = body
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
