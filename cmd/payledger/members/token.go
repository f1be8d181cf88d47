package members

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
)

// Token lets one node join: NODE@HOST:PORT/FINGERPRINT/SECRET. The address is that of
// the inviting node, the fingerprint that of the cluster's authority.
type Token struct{ Node, Address, Fingerprint, secret string }

func (t Token) String() string {
	return t.Node + "@" + t.Address + "/" + t.Fingerprint + "/" + t.secret
}

var fingerprintPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// parseToken reads a token.
func parseToken(s string) (t Token, err error) {
	node, rest, _ := strings.Cut(s, "@")
	parts := strings.Split(rest, "/")
	if len(parts) != 3 || !namePattern.MatchString(node) || !fingerprintPattern.MatchString(parts[1]) || parts[2] == "" {
		return t, errors.New("that is not a token of \"payledger cluster invite\": copy all of its line")
	}
	return Token{node, parts[0], parts[1], parts[2]}, nil
}

// secret is what the inviting process keeps of a token's.
type secret [sha256.Size]byte

func newSecret() (text string, kept secret) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	text = base64.RawURLEncoding.EncodeToString(b[:])
	return text, sha256.Sum256([]byte(text))
}

// is takes the same time whatever differs.
func (s secret) is(text string) bool {
	other := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(s[:], other[:]) == 1
}
