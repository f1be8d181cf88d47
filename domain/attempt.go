package domain

// HandOffKind is how a customer gets from the payment's page to the provider.
type HandOffKind string

// The kinds of a hand-off: the browser is redirected, or the page shows a QR code
// whose content is also a link to the customer's bank's app.
const (
	HandOffRedirect HandOffKind = "redirect"
	HandOffQR       HandOffKind = "qr"
)

// ReasonRefundedAtProvider is why a refund failed whose money the provider had
// returned before, by another hand.
const ReasonRefundedAtProvider = "refunded_at_provider"

// MaxReason is the longest reason of a provider's, in bytes.
const MaxReason = 64
