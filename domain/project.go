package domain

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Scope is one permission of an API key.
type Scope string

// The scopes a key can have.
const (
	PaymentsWrite Scope = "payments:write"
	RefundsWrite  Scope = "refunds:write"
	WebhooksWrite Scope = "webhooks:write" // manage webhook endpoints, which receive all outcomes
	Read          Scope = "read"
	Audit         Scope = "audit"
)

// AllScopes returns every scope, the default of a new key.
func AllScopes() []Scope { return []Scope{PaymentsWrite, RefundsWrite, WebhooksWrite, Read, Audit} }

// Settings are what a project's operator can set.
type Settings struct {
	Currencies            []Currency `json:"currencies"`
	MaxAmount             Amount     `json:"max_amount"`
	LifetimeSeconds       int        `json:"lifetime_seconds"` // of a payment
	RequireIdempotencyKey bool       `json:"require_idempotency_key"`
	ShopURL               string     `json:"shop_url,omitempty"`  // where the payment page leads back to; "": nowhere
	TimeZone              string     `json:"time_zone,omitempty"` // IANA name of the zone whose days reports have; "": UTC
}

// The bounds of a payment's lifetime and its default.
const (
	MinLifetime     = 5 * time.Minute
	MaxLifetime     = 90 * 24 * time.Hour
	DefaultLifetime = time.Hour
)

// MaxShopURL is the longest address of a shop, in bytes.
const MaxShopURL = 512

// MaxTimeZone is the longest name of a time zone, in bytes.
const MaxTimeZone = 64

// MaxProjectName is the longest project name, in code points.
const MaxProjectName = 128

// MaxKeyName is the longest name of an API key, in code points.
const MaxKeyName = 64

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

func (s Settings) validate() FieldErrors {
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
	return errs
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

// Key is an issued API key. Only its hash is stored.
type Key struct {
	ID      string  `json:"id"`
	Name    string  `json:"name,omitempty"` // what its merchant knows it by; "" for none
	Hash    Digest  `json:"hash"`
	Scopes  []Scope `json:"scopes"`
	Revoked bool    `json:"revoked,omitempty"`
}

// HashKey is the hash under which an API key's secret is stored. Keys have at
// least 160 random bits, so a plain SHA-256 resists a search.
func HashKey(secret string) Digest {
	var room [128]byte // fits every issued key: no allocation
	return sha256.Sum256(append(room[:0], secret...))
}

// Project is the state of one merchant project: the fold of its stream. With an
// empty Name it does not exist.
type Project struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Settings  Settings   `json:"settings"`
	Disabled  bool       `json:"disabled,omitempty"`
	Keys      []Key      `json:"keys,omitempty"`      // oldest first, revoked ones included
	Endpoints []Endpoint `json:"endpoints,omitempty"` // oldest first
}

// Authenticate finds the key with this hash that is not revoked. It compares
// every key in constant time, so the time shows neither which key matches nor
// how many bytes of the hash do.
func (p Project) Authenticate(hash Digest) (Key, bool) {
	var found Key
	ok := false
	for _, k := range p.Keys {
		if subtle.ConstantTimeCompare(k.Hash[:], hash[:]) == 1 && !k.Revoked {
			found, ok = k, true
		}
	}
	return found, ok
}

// Has reports whether the key has the scope.
func (k Key) Has(s Scope) bool { return slices.Contains(k.Scopes, s) }

// ProjectCommand is a request to change a project.
type ProjectCommand interface{ decideProject(Project) (Event, error) }

// RegisterProject creates a project.
type RegisterProject struct {
	Name     string
	Settings Settings
}

// ChangeProject replaces a project's name and settings.
type ChangeProject struct {
	Name     string
	Settings Settings
}

// DisableProject disables a project's API.
type DisableProject struct{}

// IssueKey adds an API key, given by its hash.
type IssueKey struct {
	KeyID  string
	Hash   Digest
	Scopes []Scope // at least one
	Name   string  // what its merchant knows it by; "" for none
}

// RevokeKey revokes an API key.
type RevokeKey struct{ KeyID string }

// Decide returns the one event that the command leads to, or nil when there is
// nothing to do. The error says why the command is refused: a FieldErrors or a
// *Refusal.
func (p Project) Decide(c ProjectCommand) (Event, error) { return c.decideProject(p) }

// Evolve returns the project after the event. Events of other aggregates are
// ignored.
func (p Project) Evolve(e Event) Project {
	if pe, ok := e.(ProjectEvent); ok {
		return pe.evolveProject(p)
	}
	return p
}

func validateProject(name string, s Settings) error {
	errs := s.validate()
	if err := validateName(name, MaxProjectName); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return errs
	}
	return nil
}

// validateName checks the member "name" of a command; most is the longest one, in
// code points.
func validateName(name string, most int) *FieldError {
	switch n := utf8.RuneCountInString(name); {
	case strings.TrimSpace(name) == "":
		return &FieldError{Field: "name", Code: Required}
	case n > most:
		return &FieldError{Field: "name", Code: TooLong, Limit: most, Got: n}
	case !utf8.ValidString(name):
		return &FieldError{Field: "name", Code: InvalidValue}
	case hasControl(name):
		return &FieldError{Field: "name", Code: ControlCharacter}
	}
	return nil
}

func (c RegisterProject) decideProject(p Project) (Event, error) {
	if p.Name != "" {
		// Cannot happen: the caller issues a new id for each object.
		return nil, &Refusal{Code: InternalError}
	}
	if err := validateProject(c.Name, c.Settings); err != nil {
		return nil, err
	}
	return ProjectRegistered(c), nil
}

func (c ChangeProject) decideProject(p Project) (Event, error) {
	if p.Name == "" {
		return nil, &Refusal{Code: ProjectNotFound}
	}
	if err := validateProject(c.Name, c.Settings); err != nil {
		return nil, err
	}
	return ProjectChanged(c), nil
}

func (c DisableProject) decideProject(p Project) (Event, error) {
	switch {
	case p.Name == "":
		return nil, &Refusal{Code: ProjectNotFound}
	case p.Disabled:
		return nil, nil
	}
	return ProjectDisabled{}, nil
}

func (c IssueKey) decideProject(p Project) (Event, error) {
	if p.Name == "" {
		return nil, &Refusal{Code: ProjectNotFound}
	}
	if len(c.Scopes) == 0 {
		return nil, FieldErrors{{Field: "scopes", Code: Required}}
	}
	if c.Name != "" {
		if err := validateName(c.Name, MaxKeyName); err != nil {
			return nil, FieldErrors{err}
		}
	}
	for _, s := range c.Scopes {
		if !slices.Contains(AllScopes(), s) {
			return nil, FieldErrors{{Field: "scopes", Code: InvalidValue}}
		}
	}
	if slices.ContainsFunc(p.Keys, func(k Key) bool { return k.ID == c.KeyID }) {
		// Cannot happen: the caller issues a new id for each object.
		return nil, &Refusal{Code: InternalError}
	}
	return KeyIssued(c), nil
}

func (c RevokeKey) decideProject(p Project) (Event, error) {
	if p.Name == "" {
		return nil, &Refusal{Code: ProjectNotFound}
	}
	for _, k := range p.Keys {
		if k.ID != c.KeyID {
			continue
		}
		if k.Revoked {
			return nil, nil
		}
		return KeyRevoked(c), nil
	}
	return nil, &Refusal{Code: KeyNotFound}
}
