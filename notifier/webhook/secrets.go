package webhook

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"payledger/notifier/connector/client"
)

// secretLabel separates the keys of webhook secrets from others derived from the same master key.
// It is part of every secret and never changes.
const secretLabel = "payledger webhook secret 1" //nolint:gosec // a label and no secret

// Secrets derives the signing secrets of endpoints, which are not stored: a secret is "whsec_" and,
// in base64, the HMAC-SHA256 of the endpoint's id, a zero byte and the decimal generation, under a
// key that HKDF-SHA256 draws from one version of the master key. A Secrets is immutable and safe
// for concurrent use.
type Secrets struct {
	keys    map[int][]byte
	current int
}

// NewSecrets derives the keys of secrets from the master keys by version.
// Versions count from 1. current names the one for new secrets; the others
// keep the secrets once made with them alive.
func NewSecrets(master map[int][32]byte, current int) (*Secrets, error) {
	if _, ok := master[current]; !ok {
		return nil, fmt.Errorf("webhook secrets: there is no master key of version %d", current)
	}
	s := &Secrets{keys: make(map[int][]byte, len(master)), current: current}
	for version, key := range master {
		if version < 1 {
			return nil, fmt.Errorf("webhook secrets: master key version %d: versions count from 1", version)
		}
		derived, err := hkdf.Key(sha256.New, key[:], nil, secretLabel, sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("webhook secrets: master key version %d: %w", version, err)
		}
		s.keys[version] = derived
	}
	return s, nil
}

// Current is the version of the master key that new secrets are made with.
func (s *Secrets) Current() int { return s.current }

// Secret returns the secret of an endpoint's generation, made with the master
// key of that version. The same arguments always give the same secret.
func (s *Secrets) Secret(endpoint string, keyVersion, generation int) (string, error) {
	key, ok := s.keys[keyVersion]
	switch {
	case !ok:
		return "", fmt.Errorf("the secret of %s was made with version %d of the master key, which is missing: restore the line in master.key from your backup",
			endpoint, keyVersion)
	case endpoint == "" || strings.ContainsRune(endpoint, 0):
		return "", errors.New("webhook secrets: not an endpoint's id")
	case generation < 1:
		return "", fmt.Errorf("webhook secrets: generation %d of %s: generations count from 1", generation, endpoint)
	}
	m := hmac.New(sha256.New, key)
	m.Write([]byte(endpoint))
	m.Write([]byte{0})
	m.Write(strconv.AppendInt(nil, int64(generation), 10))
	return client.SecretPrefix + base64.StdEncoding.EncodeToString(m.Sum(nil)), nil
}
