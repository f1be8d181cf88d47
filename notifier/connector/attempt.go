package connector

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
)

// Attempt is one attempt to collect a payment, as a connector gets it. The payment's description
// and payload never reach a provider, apart from Receipt.
type Attempt struct {
	Key     string    `json:"key"` // idempotency key: the payment's id, "-" and the number
	Project string    `json:"project_id"`
	Payment domain.ID `json:"payment_id"`
	Number  int       `json:"number"` // of the payment's attempts, from 1

	// Reference is the provider's own id of the attempt; empty until Begin has
	// answered it.
	Reference string `json:"reference,omitempty"`

	Amount    domain.Amount   `json:"amount"`
	Currency  domain.Currency `json:"currency"`
	BegunAt   domain.Instant  `json:"begun_at"`
	ExpiresAt domain.Instant  `json:"expires_at"`        // after which the payment cannot be begun any more
	ReturnURL string          `json:"return_url"`        // the payment's page, where the customer comes back to
	Language  string          `json:"language"`          // that the customer reads: "ru" or "en"
	Merchant  string          `json:"merchant"`          // the name that the customer knows
	Receipt   jsontext.Value  `json:"receipt,omitempty"` // payload.receipt, where the merchant sent one; see the connectors that use it
}

// Phase is how far an attempt or a refund has come at its provider.
type Phase string

// The phases. Paid and Closed are final for an attempt; for a refund Paid means
// that the customer has the money.
const (
	Open   Phase = "open"
	Paid   Phase = "paid"
	Closed Phase = "closed" // cancelled, expired or failed: no money can come of it
)

// State is what the provider says of an attempt.
type State struct {
	Reference string // the provider's id, at most domain.MaxReference bytes
	Phase     Phase
	Reason    string // Closed: why, a short code; see ReasonCode

	// Amount and Currency are what was collected, when Paid.
	Amount   domain.Amount
	Currency domain.Currency

	// HandOff sends the customer on, while Open; nil: the customer needs no more
	// than to wait.
	HandOff *domain.HandOff
}

// The longest URL of a hand-off, in bytes: of a redirect, and of a QR code, which
// must stay readable from a screen.
const (
	MaxRedirect = 4096
	MaxQR       = 1024
)

// ValidHandOff checks that a browser may be sent there: https, an absolute URL
// without a password, and a public name or address.
func ValidHandOff(h domain.HandOff) error {
	most := MaxRedirect
	switch h.Kind {
	case domain.HandOffRedirect:
	case domain.HandOffQR:
		most = MaxQR
	default:
		return fmt.Errorf("the hand-off is of kind %q: want %q or %q", h.Kind, domain.HandOffRedirect, domain.HandOffQR)
	}
	if len(h.URL) > most || !utf8.ValidString(h.URL) {
		return fmt.Errorf("the URL of the hand-off has %d bytes: want UTF-8 of at most %d", len(h.URL), most)
	}
	u, err := url.Parse(h.URL)
	switch {
	case err != nil:
		return errors.New("the URL of the hand-off cannot be parsed")
	case u.Scheme != "https" || u.User != nil || u.Hostname() == "":
		return errors.New("the URL of the hand-off is not an absolute https URL without a password")
	case strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r >= utf8.RuneSelf }), // full-width digits are an address to browsers
		!PublicHost(u.Hostname()):
		return fmt.Errorf("the URL of the hand-off leads to %q: want a public name", u.Hostname())
	}
	return nil
}

// PublicHost reports whether a URL's host may be public: a name with a dot that
// is not of the local machine or network, or a public address. A name
// whose last part is a number, also in hexadecimal, is what browsers take for an
// address: https://url.spec.whatwg.org/#ends-in-a-number-checker
func PublicHost(host string) bool {
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		ip = ip.Unmap()
		return ip.IsGlobalUnicast() && !ip.IsPrivate()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	_, top, dotted := strings.Cut(host, ".")
	if !dotted {
		return false
	}
	top = top[strings.LastIndexByte(top, '.')+1:]
	switch top {
	case "localhost", "local", "internal", "home", "lan":
		return false
	}
	if digits, ok := strings.CutPrefix(top, "0x"); ok && strings.Trim(digits, "0123456789abcdef") == "" {
		return false // an address, as 127.0.0.0x1
	}
	return strings.Trim(top, "0123456789") != "" // else a shortened address, as 127.1
}

// Refund is a refund, as a connector gets it: of a payment's money, or of late funds that the
// operator returns. It is always of the attempt's whole amount.
type Refund struct {
	ID        domain.ID       `json:"id"`                  // also the idempotency key
	Attempt   Attempt         `json:"-"`                   // whose money it is
	Reference string          `json:"reference,omitempty"` // the provider's id of the refund; empty until it is known
	Amount    domain.Amount   `json:"amount"`
	Currency  domain.Currency `json:"currency"`
	AskedAt   domain.Instant  `json:"asked_at"` // when it was created
}

// RefundState is what the provider says of a refund.
type RefundState struct {
	ID        domain.ID // ours; zero: it was made at the provider by hand
	Reference string    // the provider's id, at most domain.MaxReference bytes
	Phase     Phase
	Reason    string // Closed: why, a short code; see ReasonCode
	Amount    domain.Amount
	Currency  domain.Currency
}

// DisputeState is what the provider says of a dispute by which it holds money, or has taken it.
type DisputeState struct {
	Reference     string         // the provider's id, at most domain.MaxReference bytes
	Outcome       domain.Outcome // one of a dispute: OutcomeDisputed while it is open
	Reason        string         // a short code; see ReasonCode. Empty: the provider gave none
	Amount        domain.Amount
	Currency      domain.Currency
	OpenedAt      time.Time // zero: unknown
	EvidenceDueBy time.Time // zero: unknown, or none is taken
}

// ReasonRefundedAtProvider closes a refund of money that the provider has
// returned before, by another hand.
const ReasonRefundedAtProvider = domain.ReasonRefundedAtProvider

// Notice names what a notification is about: an attempt by the provider's
// reference, or by the payment that the provider was given, or both.
type Notice struct {
	Payment   domain.ID // zero: only the reference is known
	Reference string    // empty: only the payment is known
	Refunds   bool      // it is about the attempt's refunds too
	Disputes  bool      // it is about the payment's disputes too
}

// ReasonCode makes a code of what a provider calls a reason: at most
// domain.MaxReason characters of a-z, 0-9 and _; "unknown" if nothing is left.
func ReasonCode(s string) string {
	code := make([]byte, 0, domain.MaxReason)
	for _, b := range []byte(strings.ToLower(s)) {
		switch {
		case len(code) == domain.MaxReason:
			return string(code)
		case b >= 'a' && b <= 'z', b >= '0' && b <= '9':
			code = append(code, b)
		case len(code) > 0 && code[len(code)-1] != '_':
			code = append(code, '_')
		}
	}
	if code := strings.TrimRight(string(code), "_"); code != "" {
		return code
	}
	return "unknown"
}
