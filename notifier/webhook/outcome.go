package webhook

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"payledger/domain"
)

// keptAnswer is how much of an answer's body is stored, in bytes.
const keptAnswer = 1 << 10

// Class says what went wrong with an attempt. Classes are shown to merchants
// and are labels of metrics; they are never renamed.
type Class string

// The classes.
const (
	ClassDelivered     Class = ""               // a 2xx
	ClassStatus        Class = "status"         // any other status
	ClassRedirect      Class = "redirect"       // a 3xx, which is not followed
	ClassRefusedTarget Class = "refused_target" // the URL or every address behind its name may not be called
	ClassDNS           Class = "dns"            // the name does not resolve
	ClassConnect       Class = "connect"        // no connection, within 5 s
	ClassTLS           Class = "tls"            // no TLS handshake within 5 s, or a certificate that does not hold
	ClassTimeout       Class = "timeout"        // no complete head of an answer within 15 s
	ClassReset         Class = "reset"          // the connection ended before the head of the answer did
	ClassBadResponse   Class = "bad_response"   // an answer that is not HTTP, or whose head is too long
	ClassUnsigned      Class = "unsigned"       // the secrets cannot make a signature: nothing was sent
	ClassCancelled     Class = "cancelled"      // the caller's context ended: this was no attempt
)

// Classes lists every class but ClassDelivered.
func Classes() []Class {
	return []Class{
		ClassStatus, ClassRedirect, ClassRefusedTarget, ClassDNS, ClassConnect, ClassTLS, ClassTimeout, ClassReset,
		ClassBadResponse, ClassUnsigned, ClassCancelled,
	}
}

// Outcome is how an attempt ended.
type Outcome struct {
	Status   int           // of the answer, 0 without one
	Class    Class         // what went wrong
	Duration time.Duration // until the head of the answer was complete, or the failure

	RetryAfter time.Duration // what a failure's answer asked for, up to domain.MaxRetryAfter
	Answer     []byte        // the beginning of the answer's body, made fit to show: at most 1 KiB of UTF-8

	Delivered bool // the receiver took it
	Gone      bool // 410: the receiver wants no more
	Refused   bool // ClassRefusedTarget: trying again is of no use until the target or its name changes
}

func failed(c Class) Outcome { return Outcome{Class: c, Refused: c == ClassRefusedTarget} }

// answered classifies an answer only by its head. A 101 is the only 1xx that reaches this function,
// and is no success: net/http skips other interim answers, as HTTP requires, and limits of time and
// bytes end a request that never gets a final one.
func answered(resp *http.Response, now time.Time) Outcome {
	o := Outcome{Status: resp.StatusCode, Gone: resp.StatusCode == http.StatusGone}
	switch resp.StatusCode / 100 {
	case 2:
		o.Delivered = true
		return o
	case 3:
		o.Class = ClassRedirect
	default:
		o.Class = ClassStatus
	}
	o.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), now)
	return o
}

// retryAfter reads the value of a Retry-After header (RFC 9110, 10.2.3):
// seconds or a date. What it cannot read counts as absent.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.Trim(value, " \t")
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseUint(value, 10, 64)
		if err != nil || seconds > uint64(domain.MaxRetryAfter/time.Second) {
			return domain.MaxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), domain.MaxRetryAfter)
}

// readAnswer returns the beginning of a body. It reads up to a limit, because a connection is used
// again only if its answer was read to the end. Errors do not matter.
func readAnswer(body io.Reader) []byte {
	kept, err := io.ReadAll(io.LimitReader(body, keptAnswer))
	if err == nil && len(kept) == keptAnswer {
		_, _ = io.Copy(io.Discard, io.LimitReader(body, maxAnswer))
	}
	return showable(kept)
}

// showable replaces everything but printable UTF-8, line breaks and tabs, so that
// an answer can do no harm to the terminal or page that shows it.
func showable(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && size == 1 && !utf8.FullRune(b):
			return out // cut in the middle of a character
		case r == '\r' && len(b) > 1 && b[1] == '\n':
			b = b[size:]
			continue
		case r != '\n' && r != '\t' && !unicode.IsPrint(r):
			r = utf8.RuneError
		}
		if len(out)+utf8.RuneLen(r) > keptAnswer {
			break
		}
		out = utf8.AppendRune(out, r)
		b = b[size:]
	}
	return out
}
