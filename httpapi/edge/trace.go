package edge

import (
	"net/http"
	"strings"
)

// traceOf answers the ids of the trace and of the calling span in a request's
// traceparent, as W3C Trace Context, section 3.2, defines it; "" for none, or one
// that must be ignored. Both are hexadecimal digits, so they can hold no secret.
func traceOf(h http.Header) (trace, parent string) {
	lines := h["Traceparent"]
	if len(lines) != 1 {
		return "", ""
	}
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	s := lines[0]
	if len(s) < length || len(s) > maxTraceparent || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return "", ""
	}
	version, flags, rest := s[:2], s[53:length], s[length:]
	trace, parent = s[3:35], s[36:52]
	switch {
	case version == "ff", rest != "" && (version == "00" || rest[0] != '-'), // a later version may add fields
		strings.Trim(version+trace+parent+flags, "0123456789abcdef") != "",
		strings.Trim(trace, "0") == "", strings.Trim(parent, "0") == "":
		return "", ""
	}
	return trace, parent
}

// maxTraceparent is the longest traceparent that is read, of any later version.
const maxTraceparent = 256
