package projects

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"payledger/domain"
)

// The limits of webhook endpoints.
const (
	MaxEndpoints           = 16   // of a project
	MaxEndpointURL         = 2048 // bytes
	MaxEndpointDescription = 128  // Unicode code points

	DefaultSecretOverlap = 24 * time.Hour     // how long the previous secret stays valid after a rotation
	MaxSecretOverlap     = 7 * 24 * time.Hour // the longest overlap of a rotation
	MaxOldSecrets        = 8                  // that sign as well as the newest; beyond it, those that expire first end at once
)

// Endpoint is a webhook endpoint of a project: a URL that is notified of events.
type Endpoint struct {
	ID          string         `json:"id"`
	URL         string         `json:"url"`
	Kinds       []domain.Kind  `json:"kinds"` // in the order of Kinds
	Description *string        `json:"description"`
	CreatedAt   domain.Instant `json:"created_at"`
	Disabled    DisabledReason `json:"disabled,omitempty"` // "": enabled
	DisabledAt  domain.Instant `json:"disabled_at,omitempty"`
	Secret      Secret         `json:"secret"`
	Previous    []OldSecret    `json:"previous,omitempty"` // rotated out, newest first
}

// Secret names a signing secret. The secret itself is not stored: it is derived from the master key
// of a version, the endpoint's id and the generation.
type Secret struct {
	Generation int `json:"generation"` // from 1
	KeyVersion int `json:"key_version"`
}

// OldSecret is a secret that was rotated out. It signs as well as the newest secret until Until;
// later rotations do not change Until.
type OldSecret struct {
	Secret
	Until domain.Instant `json:"until"`
}

// DisabledReason says why an endpoint is disabled.
type DisabledReason string

// The reasons.
const (
	DisabledByRequest DisabledReason = "requested" // by the merchant or the operator
	DisabledGone      DisabledReason = "gone"      // it answered 410
	DisabledFailing   DisabledReason = "failing"   // every delivery failed for MaxFailingTime
)

// Secrets returns the secrets that sign a notification sent at an instant,
// newest first.
func (e Endpoint) Secrets(at domain.Instant) []Secret {
	all := []Secret{e.Secret}
	for _, old := range e.Previous {
		if at < old.Until {
			all = append(all, old.Secret)
		}
	}
	return all
}

// SecretsUntil is when the last of the old secrets expires; 0 when all have
// expired.
func (e Endpoint) SecretsUntil(at domain.Instant) (until domain.Instant) {
	for _, old := range e.Previous {
		if at < old.Until {
			until = max(until, old.Until)
		}
	}
	return until
}

// Wants reports whether the endpoint subscribed to the kind.
func (e Endpoint) Wants(k domain.Kind) bool { return slices.Contains(e.Kinds, k) }

// KindFor returns the kind under which the endpoint is notified of an event, given by
// its kind and its sequence within the payment; false if it is not. A payment that was
// created with its route is reported as awaiting its money. An endpoint that takes
// payment.created and not that kind gets it as payment.created, so that it hears of
// every payment.
func (e Endpoint) KindFor(k domain.Kind, sequence uint64) (domain.Kind, bool) {
	if k == domain.KindPaymentAwaitingPayment && sequence == 1 && !e.Wants(k) {
		k = domain.KindPaymentCreated
	}
	return k, e.Wants(k)
}

// Endpoint finds one of the project's endpoints.
func (p Project) Endpoint(id string) (Endpoint, bool) {
	return domain.Find(p.Endpoints, func(e Endpoint) bool { return e.ID == id })
}

// EndpointMade finds the endpoint of an id, or of one with the same random part: those of a
// repeated request differ only in their times.
func (p Project) EndpointMade(id string) (Endpoint, bool) {
	return domain.Find(p.Endpoints, func(e Endpoint) bool {
		return e.ID == id || len(e.ID) > randomChars && strings.HasSuffix(id, e.ID[len(e.ID)-randomChars:])
	})
}

// randomChars is how many characters of an id, the last ones, are random.
const randomChars = 16

// AddEndpoint adds a webhook endpoint. There is nothing to do when EndpointMade finds
// it: the same request came twice. With other content it is refused: idempotency_key_reused.
// The caller has already checked that the sender may call URL; that check needs the network.
type AddEndpoint struct {
	At          domain.Instant
	EndpointID  string
	URL         string
	Kinds       []domain.Kind // none: FinalKinds
	Description *string
	KeyVersion  int // of the master key that the secret is derived from
}

// ChangeEndpoint replaces all members of an endpoint that its owner can set. No kinds: FinalKinds.
type ChangeEndpoint WebhookEndpointChanged

// EditEndpoint changes the members that are set and leaves the others. So two
// edits of different members do not overwrite each other, in either order.
type EditEndpoint struct {
	EndpointID  string
	URL         *string
	Kinds       []domain.Kind // none: unchanged
	Description *string
}

// DisableEndpoint stops notifications to an endpoint until it is enabled.
type DisableEndpoint struct {
	At         domain.Instant
	EndpointID string
	Reason     DisabledReason
	CalledAt   string // the URL that gave the reason: there is nothing to do at another one; "": at any
}

// EnableEndpoint lets an endpoint be notified again.
type EnableEndpoint struct{ EndpointID string }

// RemoveEndpoint removes an endpoint permanently.
type RemoveEndpoint struct{ EndpointID string }

// RotateSecret gives an endpoint a new secret. The current secret stays valid for Overlap; secrets
// of earlier rotations still expire at their own time. There is nothing to do when the current
// secret is not that of generation From: the request was repeated, or another one was faster. From
// 0 rotates any generation.
type RotateSecret struct {
	From       int
	At         domain.Instant
	EndpointID string
	Overlap    time.Duration // 0 … MaxSecretOverlap
	KeyVersion int
}

// normalKinds returns the kinds in the order of Kinds, without duplicates.
func normalKinds(kinds []domain.Kind) ([]domain.Kind, domain.FieldErrors) {
	if len(kinds) == 0 {
		return domain.FinalKinds(), nil
	}
	if slices.ContainsFunc(kinds, func(k domain.Kind) bool { return !slices.Contains(domain.Kinds(), k) }) {
		allowed := make([]string, 0, len(domain.Kinds()))
		for _, k := range domain.Kinds() {
			allowed = append(allowed, string(k))
		}
		return nil, domain.FieldErrors{{Field: "kinds", Code: domain.InvalidValue, Allowed: allowed}}
	}
	return slices.DeleteFunc(domain.Kinds(), func(k domain.Kind) bool { return !slices.Contains(kinds, k) }), nil
}

func validateEndpoint(url string, kinds []domain.Kind, description *string) ([]domain.Kind, domain.FieldErrors) {
	kinds, errs := normalKinds(kinds)
	switch {
	case url == "":
		errs = append(errs, &domain.FieldError{Field: "url", Code: domain.Required})
	case len(url) > MaxEndpointURL:
		errs = append(errs, &domain.FieldError{Field: "url", Code: domain.TooLong, Limit: MaxEndpointURL, Got: len(url)})
	case domain.HasControl(url):
		errs = append(errs, &domain.FieldError{Field: "url", Code: domain.ControlCharacter})
	case strings.ContainsFunc(url, func(r rune) bool { return r <= ' ' || r > '~' }):
		errs = append(errs, &domain.FieldError{Field: "url", Code: domain.InvalidValue}) // RFC 3986 allows printable ASCII only
	}
	if description != nil {
		if n := utf8.RuneCountInString(*description); n > MaxEndpointDescription {
			errs = append(errs, &domain.FieldError{Field: "description", Code: domain.TooLong, Limit: MaxEndpointDescription, Got: n})
		}
		if domain.HasControl(*description) {
			errs = append(errs, &domain.FieldError{Field: "description", Code: domain.ControlCharacter})
		}
	}
	return kinds, errs
}

// Validate checks the members that are set, without the endpoint's state. It
// names fields as the API does.
func (c EditEndpoint) Validate() domain.FieldErrors {
	url := "https://named.by.none"
	if c.URL != nil {
		url = *c.URL
	}
	_, errs := validateEndpoint(url, c.Kinds, c.Description)
	return errs
}

func (c AddEndpoint) decideProject(p Project) (domain.Event, error) {
	kinds, errs := validateEndpoint(c.URL, c.Kinds, c.Description)
	if len(errs) > 0 {
		return nil, errs
	}
	if e, made := p.EndpointMade(c.EndpointID); made {
		change, err := ChangeEndpoint{EndpointID: e.ID, URL: c.URL, Kinds: kinds, Description: c.Description}.decideProject(p)
		return nil, cmp.Or(err, repeated(change == nil))
	}
	if len(p.Endpoints) >= MaxEndpoints {
		return nil, &domain.Refusal{Code: domain.WebhookEndpointLimit}
	}
	return WebhookEndpointAdded{
		EndpointID: c.EndpointID, CreatedAt: c.At, URL: c.URL, Kinds: kinds, Description: c.Description, KeyVersion: c.KeyVersion,
	}, nil
}

// known finds the endpoint, or refuses with WebhookEndpointNotFound.
func (p Project) known(id string) (Endpoint, error) {
	e, ok := p.Endpoint(id)
	if !ok {
		return e, &domain.Refusal{Code: domain.WebhookEndpointNotFound}
	}
	return e, nil
}

func (c ChangeEndpoint) decideProject(p Project) (domain.Event, error) {
	was, err := p.known(c.EndpointID)
	if err != nil {
		return nil, err
	}
	kinds, errs := validateEndpoint(c.URL, c.Kinds, c.Description)
	if len(errs) > 0 {
		return nil, errs
	}
	same := (was.Description == nil) == (c.Description == nil) && (c.Description == nil || *was.Description == *c.Description)
	if was.URL == c.URL && slices.Equal(was.Kinds, kinds) && same {
		return nil, nil
	}
	c.Kinds = kinds
	return WebhookEndpointChanged(c), nil
}

func (c EditEndpoint) decideProject(p Project) (domain.Event, error) {
	was, err := p.known(c.EndpointID)
	if err != nil {
		return nil, err
	}
	all := ChangeEndpoint{EndpointID: was.ID, URL: was.URL, Kinds: was.Kinds, Description: was.Description}
	if c.URL != nil {
		all.URL = *c.URL
	}
	if len(c.Kinds) > 0 {
		all.Kinds = c.Kinds
	}
	if c.Description != nil {
		all.Description = c.Description
	}
	return all.decideProject(p)
}

func (c DisableEndpoint) decideProject(p Project) (domain.Event, error) {
	was, err := p.known(c.EndpointID)
	if err != nil || was.Disabled != "" || c.CalledAt != "" && c.CalledAt != was.URL {
		return nil, err
	}
	switch c.Reason {
	case DisabledByRequest, DisabledGone, DisabledFailing:
		return WebhookEndpointDisabled{At: c.At, EndpointID: c.EndpointID, Reason: c.Reason}, nil
	default:
		return nil, domain.FieldErrors{{Field: "reason", Code: domain.InvalidValue}}
	}
}

func (c EnableEndpoint) decideProject(p Project) (domain.Event, error) {
	was, err := p.known(c.EndpointID)
	if err != nil || was.Disabled == "" {
		return nil, err
	}
	return WebhookEndpointEnabled(c), nil
}

func (c RemoveEndpoint) decideProject(p Project) (domain.Event, error) {
	if _, err := p.known(c.EndpointID); err != nil {
		return nil, err
	}
	return WebhookEndpointRemoved(c), nil
}

func (c RotateSecret) decideProject(p Project) (domain.Event, error) {
	was, err := p.known(c.EndpointID)
	if err != nil {
		return nil, err
	}
	if c.Overlap < 0 || c.Overlap > MaxSecretOverlap {
		return nil, domain.FieldErrors{{Field: "overlap_seconds", Code: domain.InvalidValue}}
	}
	if c.From != 0 && c.From != was.Secret.Generation {
		return nil, nil
	}
	return WebhookSecretRotated{
		EndpointID: c.EndpointID, Generation: was.Secret.Generation + 1, KeyVersion: c.KeyVersion,
		PreviousUntil: c.At.Add(c.Overlap),
	}, nil
}
