package merchant

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/http"
	"strings"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/wire"
)

// idempotencyKey reads the header Idempotency-Key: one line with a key, nil
// when there is none.
func idempotencyKey(h http.Header) (*domain.Digest, error) {
	switch lines := h["Idempotency-Key"]; len(lines) {
	case 0:
		return nil, nil
	case 1:
		return ParseKey(lines[0])
	}
	return nil, wire.Problem{Code: domain.IdempotencyKeyInvalid}
}

// ParseKey reads an idempotency key: a UUID in the form 8-4-4-4-12, of any version
// and variant, in either case, bare or in double quotes. It answers the digest of the UUID in lower
// case.
func ParseKey(key string) (*domain.Digest, error) {
	if len(key) == 38 && key[0] == '"' && key[37] == '"' {
		key = key[1:37]
	}
	valid := len(key) == 36
	for i := range len(key) {
		c := key[i]
		switch i {
		case 8, 13, 18, 23:
			valid = valid && c == '-'
		default:
			valid = valid && ('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F')
		}
	}
	if !valid {
		return nil, wire.Problem{Code: domain.IdempotencyKeyInvalid}
	}
	digest := domain.Digest(sha256.Sum256([]byte(strings.ToLower(key))))
	return &digest, nil
}

// claim is what a key is claimed with. The fingerprint is a MAC of
// the method, the path and the normalised members of the command, each preceded by
// its length, so that no two commands run together. Its definition must not
// change while keys are remembered. Without the key of the installation nobody can
// guess from it what a payment was for, once that is erased. before is the plain SHA-256 of the
// same, which was the fingerprint while logs had format 5 or an older one.
func (a *API) claim(key *domain.Digest, path string, members ...string) (c *eventstore.Claim, before domain.Digest) {
	if key == nil {
		return nil, before
	}
	var room [512]byte // for most
	b := room[:0]
	add := func(m string) { b = append(binary.BigEndian.AppendUint64(b, uint64(len(m))), m...) }
	add(http.MethodPost)
	add(path)
	for _, m := range members {
		add(m)
	}
	return &eventstore.Claim{Key: *key, Fingerprint: a.cfg.Links.Fingerprint(b)}, sha256.Sum256(b)
}

// remembered is the claim as it is in the event.
func remembered(c *eventstore.Claim) *domain.Idempotency {
	if c == nil {
		return nil
	}
	return &domain.Idempotency{Key: c.Key, Fingerprint: c.Fingerprint}
}

// presence distinguishes null from text in a fingerprint.
func presence(s *string) string {
	if s == nil {
		return ""
	}
	return "=" + *s
}

// reused turns a claim that belongs to another command into the problem that
// names the members that differ; differ compares the earlier event with the
// command and returns nil when it is that of another endpoint.
func (a *API) reused(err error, differ func(earlier domain.Event) []string) error {
	var claimed *eventstore.ClaimedError
	if !errors.As(err, &claimed) {
		return err
	}
	earlier, err := a.cfg.Ledger.Codec.Decode(claimed.Value)
	if err != nil {
		return err
	}
	members := differ(earlier)
	switch {
	case members == nil:
		members = []string{"endpoint"}
	case erased(earlier):
		return wire.Problem{Code: domain.DetailsErased}
	}
	return wire.Problem{
		Code:    domain.IdempotencyKeyReused,
		Detail:  "This Idempotency-Key was used for a request with another " + strings.Join(members, ", ") + ". Use a new key for a new request.",
		Members: members,
	}
}

// erased reports whether the event is that of a payment whose details are gone, so that
// the answer to its creation cannot be given again.
func erased(e domain.Event) bool {
	created, ok := e.(domain.PaymentCreated)
	return ok && created.Erased()
}

// differences lists the members in which a payment differs from a request for one. It is not nil.
func differences(e domain.PaymentCreated, c domain.CreatePayment) []string {
	members := []string{}
	note := func(name string, same bool) {
		if !same {
			members = append(members, name)
		}
	}
	note("amount", e.Amount == c.Amount)
	note("currency", e.Currency == c.Currency)
	note("description", presence(e.Description) == presence(c.Description))
	note("payload", bytes.Equal(e.Payload, c.Payload))
	return members
}
