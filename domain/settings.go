package domain

import (
	"strings"
	"time"
)

// Settings are what a project's operator can set. A new payment is checked
// against them.
type Settings struct {
	Currencies            []Currency `json:"currencies"`
	MaxAmount             Amount     `json:"max_amount"`
	LifetimeSeconds       int        `json:"lifetime_seconds"` // of a payment
	RequireIdempotencyKey bool       `json:"require_idempotency_key"`
	ShopURL               string     `json:"shop_url,omitempty"`              // the payment page's link back; "": none
	TimeZone              string     `json:"time_zone,omitempty"`             // IANA name of the zone whose days reports have; "": UTC
	DetailsRetentionDays  int        `json:"details_retention_days,omitzero"` // from a payment's creation until its details are erased; 0: nobody erases them by itself

	// The project's own Limits; nil: the server's.
	RateWrites         *int `json:"rate_writes,omitempty"`
	RateReads          *int `json:"rate_reads,omitempty"`
	RateCustomers      *int `json:"rate_customers,omitempty"`
	SessionIdleSeconds *int `json:"session_idle_seconds,omitempty"`
	SessionMaxSeconds  *int `json:"session_max_seconds,omitempty"`
}

// The bounds of a payment's lifetime and its default.
const (
	MinLifetime     = 5 * time.Minute
	MaxLifetime     = 90 * 24 * time.Hour
	DefaultLifetime = time.Hour
)

// MaxRetentionDays bounds how long details of payments may be kept before they are erased: ten years.
const MaxRetentionDays = 3650

// MaxShopURL is the longest address of a shop, in bytes.
const MaxShopURL = 512

// MaxTimeZone is the longest name of a time zone, in bytes.
const MaxTimeZone = 64

// DefaultSettings are the settings of a project that was registered without any.
func DefaultSettings() Settings {
	return Settings{
		Currencies:      []Currency{DefaultCurrency},
		MaxAmount:       MaxAmount,
		LifetimeSeconds: int(DefaultLifetime.Seconds()),
	}
}

// Lifetime is how long a new payment can be paid.
func (s Settings) Lifetime() time.Duration { return time.Duration(s.LifetimeSeconds) * time.Second }

func (s Settings) currencyNotSupported() *FieldError {
	allowed := make([]string, len(s.Currencies))
	for i, c := range s.Currencies {
		allowed[i] = string(c)
	}
	return &FieldError{Field: "currency", Code: CurrencyNotSupported, Allowed: allowed}
}

// SettingNames are the wire names of all settings.
func SettingNames() []string {
	return append([]string{"currencies", "max_amount", "lifetime_seconds", "require_idempotency_key", "shop_url", "time_zone", "details_retention_days"}, LimitNames()...)
}

// Validate checks the settings against the fixed limits.
func (s Settings) Validate() FieldErrors {
	var errs FieldErrors
	if len(s.Currencies) == 0 {
		errs = append(errs, &FieldError{Field: "currencies", Code: Required})
	}
	for _, c := range s.Currencies {
		if !c.TwoMinorDigits() {
			errs = append(errs, &FieldError{Field: "currencies", Code: CurrencyNotSupported})
			break
		}
	}
	if s.MaxAmount < MinAmount || s.MaxAmount > MaxAmount {
		errs = append(errs, &FieldError{Field: "max_amount", Code: InvalidValue, Min: MinAmount, Max: MaxAmount})
	}
	// Compared in seconds: a huge number of them would overflow a Duration.
	if l := s.LifetimeSeconds; l < int(MinLifetime/time.Second) || l > int(MaxLifetime/time.Second) {
		errs = append(errs, &FieldError{Field: "lifetime_seconds", Code: InvalidValue})
	}
	switch {
	case len(s.ShopURL) > MaxShopURL:
		errs = append(errs, &FieldError{Field: "shop_url", Code: TooLong, Limit: MaxShopURL, Got: len(s.ShopURL)})
	case s.ShopURL != "" && !validShopURL(s.ShopURL):
		errs = append(errs, &FieldError{Field: "shop_url", Code: InvalidValue})
	}
	switch {
	case len(s.TimeZone) > MaxTimeZone:
		errs = append(errs, &FieldError{Field: "time_zone", Code: TooLong, Limit: MaxTimeZone, Got: len(s.TimeZone)})
	case strings.ContainsFunc(s.TimeZone, notInZone):
		errs = append(errs, &FieldError{Field: "time_zone", Code: InvalidValue})
	}
	// A customer has to see what a payment is for while it can be paid.
	if days := s.DetailsRetentionDays; days < 0 || days > MaxRetentionDays || days > 0 && days*24*60*60 < s.LifetimeSeconds {
		errs = append(errs, &FieldError{Field: "details_retention_days", Code: InvalidValue})
	}
	return append(errs, s.LimitsOver(DefaultLimits()).Validate()...)
}

// notInZone reports a character that no name of a time zone has. Whether there is a
// zone of the name is not judged here: zones come and go with releases of the tz
// database, and the same command must always be decided in the same way.
func notInZone(r rune) bool {
	return ('a' > r || r > 'z') && ('A' > r || r > 'Z') && ('0' > r || r > '9') && !strings.ContainsRune("/_+-", r)
}

// validShopURL reports whether customers can be sent to the address: https://, a
// host, maybe a port, and what follows in printable ASCII.
func validShopURL(s string) bool {
	rest, ok := strings.CutPrefix(s, "https://")
	host := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host = rest[:end]
	}
	inHost := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-.:", r)
	}
	return ok && strings.Trim(host, "-.:0123456789") != "" &&
		!strings.ContainsFunc(host, func(r rune) bool { return !inHost(r) }) &&
		!strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r > '~' })
}
