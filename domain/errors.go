package domain

import (
	"slices"
	"strings"
)

// FieldError is one invalid field of a command. Only the members that explain
// the code are set.
type FieldError struct {
	Field    string // name of the top-level member of the body; "" while not known
	Code     Code
	Allowed  []string // the valid values, if they can be listed
	Limit    int      // too_long: characters; payload_too_large: bytes
	Got      int      // the size that was sent, in the unit of Limit
	Min, Max Amount   // amount_too_small, amount_too_large
	Why      string   // target_not_allowed, or invalid_value of a URL: a text for people, without secrets
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return string(e.Code)
	}
	return e.Field + ": " + string(e.Code)
}

// InField returns a copy of the error that names its field.
func (e *FieldError) InField(name string) *FieldError {
	c := *e
	c.Field = name
	return &c
}

// FieldErrors are all invalid fields of a command.
type FieldErrors []*FieldError

func (e FieldErrors) Error() string {
	all := make([]string, len(e))
	for i, f := range e {
		all[i] = f.Error()
	}
	return strings.Join(all, "; ")
}

// Has reports whether a field is invalid; "" is the body itself.
func (e FieldErrors) Has(field string) bool {
	return slices.ContainsFunc(e, func(f *FieldError) bool { return f.Field == field })
}

// Refusal is the error of Decide for a well-formed command that the current
// state does not allow. Only the members that explain the code are set.
type Refusal struct {
	Code          Code
	PaymentStatus PaymentStatus // payment_not_paid, final_status
	RefundID      ID            // refund_exists
	RefundStatus  RefundStatus  // refund_exists
	EventID       ID            // delivery_superseded: the newest event that can be sent
}

func (e *Refusal) Error() string { return string(e.Code) }

// TooEarlyError is the error of Decide for a command that comes too early. The
// same command can be tried again later.
type TooEarlyError struct {
	// Until is the first instant at which the command can succeed; zero when
	// it waits for an event, not for a time.
	Until Instant
	// Undecided: it waits for the payment's final status.
	Undecided bool
}

func (e *TooEarlyError) Error() string {
	if e.Undecided {
		return "too early: the payment has no final status yet"
	}
	if e.Until == 0 {
		return "too early: the payment has no route yet"
	}
	return "too early: not before " + e.Until.String()
}

// UnrecordedError is the error of Decide for a signal that is refused without an
// event, because the payment has already recorded many refusals. The caller
// counts it.
type UnrecordedError struct{ Reason string }

func (e *UnrecordedError) Error() string {
	return "the signal is refused and only counted, because the payment has many refusals: " + e.Reason
}

// Code names an error condition in the API. Codes are part of the interface:
// they are never renamed or reused.
type Code string

// Codes of whole requests, in the order of their HTTP status.
const (
	InvalidParameter            Code = "invalid_parameter"
	InvalidCursor               Code = "invalid_cursor"
	MalformedJSON               Code = "malformed_json"
	InvalidEncoding             Code = "invalid_encoding"
	DuplicateMember             Code = "duplicate_member"
	BodyRequired                Code = "body_required"
	IdempotencyKeyInvalid       Code = "idempotency_key_invalid"
	IdempotencyKeyRequired      Code = "idempotency_key_required"
	NotificationMalformed       Code = "notification_malformed"
	Unauthorized                Code = "unauthorized"
	NotificationForged          Code = "notification_forged"
	ProjectDisabledCode         Code = "project_disabled"
	ScopeMissing                Code = "scope_missing"
	PaymentNotFound             Code = "payment_not_found"
	RefundNotFound              Code = "refund_not_found"
	ProjectNotFound             Code = "project_not_found"
	KeyNotFound                 Code = "key_not_found"
	WebhookEndpointNotFound     Code = "webhook_endpoint_not_found"
	DeliveryNotFound            Code = "delivery_not_found"
	ParkedSignalNotFound        Code = "parked_signal_not_found"
	NATSConsumerNotFound        Code = "nats_consumer_not_found"
	RouteNotFound               Code = "route_not_found"
	LateFundsNotFound           Code = "late_funds_not_found"
	DisputeNotFound             Code = "dispute_not_found"
	SettlementNotFound          Code = "settlement_not_found"
	SettlementLineNotFound      Code = "settlement_line_not_found"
	PayoutNotFound              Code = "payout_not_found"
	PathNotFound                Code = "path_not_found"
	VersionNotSupported         Code = "version_not_supported"
	MethodNotAllowed            Code = "method_not_allowed"
	PaymentNotPaid              Code = "payment_not_paid"
	PaymentDisputedCode         Code = "payment_disputed"
	RefundExists                Code = "refund_exists"
	FinalStatus                 Code = "final_status"
	DetailsErased               Code = "details_erased"
	DetailsInLog                Code = "details_in_log"
	NotSimulated                Code = "not_simulated"
	DeliverySupersededCode      Code = "delivery_superseded"
	WebhookEndpointLimit        Code = "webhook_endpoint_limit"
	WebhookEndpointDisabledCode Code = "webhook_endpoint_disabled"
	NATSConsumerExists          Code = "nats_consumer_exists"
	NATSConsumerLimit           Code = "nats_consumer_limit"
	NATSExternal                Code = "nats_external"
	RefundedAtProvider          Code = "refunded_at_provider"
	SettlementOpen              Code = "settlement_open"
	SettlementDiffers           Code = "settlement_differs"
	PayoutDiffers               Code = "payout_differs"
	NoConnector                 Code = "no_connector"
	BodyTooLarge                Code = "body_too_large"
	UnsupportedMediaType        Code = "unsupported_media_type"
	ValidationFailed            Code = "validation_failed"
	IdempotencyKeyReused        Code = "idempotency_key_reused"
	RateLimited                 Code = "rate_limited"
	InternalError               Code = "internal_error"
	Unavailable                 Code = "unavailable"
	Unconfirmed                 Code = "unconfirmed"
)

// Codes of single fields, in the errors of a ValidationFailed.
const (
	Required                Code = "required"
	WrongType               Code = "wrong_type"
	UnknownField            Code = "unknown_field"
	InvalidValue            Code = "invalid_value"
	AmountFormat            Code = "amount_format"
	AmountPrecision         Code = "amount_precision"
	AmountTooSmall          Code = "amount_too_small"
	AmountTooLarge          Code = "amount_too_large"
	CurrencyNotSupported    Code = "currency_not_supported"
	NoRoute                 Code = "no_route"
	TooLong                 Code = "too_long"
	ControlCharacter        Code = "control_character"
	PayloadTooLarge         Code = "payload_too_large"
	RefundAmountNotAccepted Code = "refund_amount_not_accepted"
	TargetNotAllowed        Code = "target_not_allowed"
)
