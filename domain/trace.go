package domain

import "strings"

// Traceparent is a position in a distributed trace, in the form of version 00 of
// W3C Trace Context, section 3.2: "00-" trace id "-" parent id "-" flags, all
// hexadecimal digits, so that it cannot hold a secret. "" is no trace.
type Traceparent string

const (
	traceparentSize = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	maxTraceparent  = 256 // of any later version
	traceFlags      = 0b11
)

// ParseTraceparent reads the value of a traceparent header. Of a later version, and
// of the flags, it keeps what version 00 and the flag of random trace ids define.
// False: the value must be ignored.
func ParseTraceparent(s string) (Traceparent, bool) {
	const size = traceparentSize
	if len(s) < size || len(s) > maxTraceparent || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return "", false
	}
	version, trace, parent, flags, rest := s[:2], s[3:35], s[36:52], s[53:size], s[size:]
	switch {
	case version == "ff", rest != "" && (version == "00" || rest[0] != '-'), // a later version may add fields
		strings.Trim(version+trace+parent+flags, hexDigits) != "",
		strings.Trim(trace, "0") == "", strings.Trim(parent, "0") == "":
		return "", false
	}
	kept := strings.IndexByte(hexDigits, flags[1]) & traceFlags
	if version == "00" && flags == "0"+hexDigits[kept:kept+1] {
		return Traceparent(s), true
	}
	return Traceparent("00" + s[2:53] + "0" + hexDigits[kept:kept+1]), true
}

const hexDigits = "0123456789abcdef"

// Trace is the trace's id, 32 digits; "" for none.
func (t Traceparent) Trace() string { return t.part(3, 35) }

// Parent is the id of the calling span, 16 digits; "" for none.
func (t Traceparent) Parent() string { return t.part(36, 52) }

func (t Traceparent) part(from, to int) string {
	if len(t) != traceparentSize {
		return ""
	}
	return string(t[from:to])
}
