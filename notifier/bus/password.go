package bus

import (
	"encoding/base64"
	"fmt"
	"io"
)

// PasswordBytes of entropy make a password of the embedded server.
const PasswordBytes = 32

// NewPassword makes a password of 256 bits read from entropy.
func NewPassword(entropy io.Reader) (string, error) {
	b := make([]byte, PasswordBytes)
	if _, err := io.ReadFull(entropy, b); err != nil {
		return "", fmt.Errorf("making a NATS password: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b), nil
}
