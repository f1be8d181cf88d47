package domain

// Code names an error condition the outside can see. Codes are part of the
// interface: they are never renamed or reused.
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
	Unauthorized                Code = "unauthorized"
	ProjectDisabledCode         Code = "project_disabled"
	ScopeMissing                Code = "scope_missing"
	PaymentNotFound             Code = "payment_not_found"
	RefundNotFound              Code = "refund_not_found"
	ProjectNotFound             Code = "project_not_found"
	KeyNotFound                 Code = "key_not_found"
	WebhookEndpointNotFound     Code = "webhook_endpoint_not_found"
	DeliveryNotFound            Code = "delivery_not_found"
	ParkedSignalNotFound        Code = "parked_signal_not_found"
	PathNotFound                Code = "path_not_found"
	VersionNotSupported         Code = "version_not_supported"
	MethodNotAllowed            Code = "method_not_allowed"
	PaymentNotPaid              Code = "payment_not_paid"
	RefundExists                Code = "refund_exists"
	FinalStatus                 Code = "final_status"
	DeliverySupersededCode      Code = "delivery_superseded"
	WebhookEndpointLimit        Code = "webhook_endpoint_limit"
	WebhookEndpointDisabledCode Code = "webhook_endpoint_disabled"
	ConfirmationRequired        Code = "confirmation_required"
	BodyTooLarge                Code = "body_too_large"
	UnsupportedMediaType        Code = "unsupported_media_type"
	ValidationFailed            Code = "validation_failed"
	IdempotencyKeyReused        Code = "idempotency_key_reused"
	RateLimited                 Code = "rate_limited"
	InternalError               Code = "internal_error"
	Unavailable                 Code = "unavailable"
)

// Codes of single fields, found in the errors of a ValidationFailed.
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
	TooLong                 Code = "too_long"
	ControlCharacter        Code = "control_character"
	PayloadTooLarge         Code = "payload_too_large"
	RefundAmountNotAccepted Code = "refund_amount_not_accepted"
	TargetNotAllowed        Code = "target_not_allowed"
)
