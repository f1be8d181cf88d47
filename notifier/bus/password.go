package bus

import (
	"crypto/rand"
	"encoding/base64"
)

// PasswordBytes of entropy make a password of the embedded server.
const PasswordBytes = 32

// NewPassword makes a random password of 256 bits.
func NewPassword() string {
	b := make([]byte, PasswordBytes)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}
