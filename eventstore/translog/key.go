package translog

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// NewKey makes the private key that signs a log's checkpoints, as one line of text
// without a line break. It is secret.
func NewKey(random io.Reader, origin string) (string, error) {
	secret, _, err := note.GenerateKey(random, origin)
	if err != nil {
		return "", fmt.Errorf("making a log key: %w", err)
	}
	return secret, nil
}

// Signer signs checkpoints of one log. It is immutable and safe for concurrent
// use.
type Signer struct {
	signer   note.Signer
	verifier *Verifier
}

// ParseSigner reads a key made by NewKey. Errors do not contain the key.
func ParseSigner(text string) (*Signer, error) {
	text = strings.TrimSpace(text)
	signer, err := note.NewSigner(text)
	_, key := publicOf(text)
	if err != nil || key == nil {
		return nil, errors.New("want one line \"PRIVATE+KEY+…\" of an Ed25519 note key")
	}
	public, err := note.NewEd25519VerifierKey(signer.Name(), key[1:])
	if err != nil {
		return nil, err
	}
	verifier, err := ParseVerifier(public)
	return &Signer{signer, verifier}, err
}

// publicOf is the hash of a private key, PRIVATE+KEY+name+hash+base64, and the public one: the byte of
// the algorithm and the key; nil if it is no Ed25519 key. The base64 is that byte and the seed, and can
// contain plus signs.
func publicOf(text string) (hash string, key []byte) {
	parts := strings.SplitN(text, "+", 5)
	raw, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(parts) != 5 || len(raw) != 1+ed25519.SeedSize {
		return "", nil
	}
	public := ed25519.NewKeyFromSeed(raw[1:])[ed25519.SeedSize:]
	return parts[3], append(raw[:1:1], public...)
}

// Origin is the origin of the key's log.
func (s *Signer) Origin() string { return s.signer.Name() }

// Verifier opens what the key signs.
func (s *Signer) Verifier() *Verifier { return s.verifier }

// VerifierKey is the public key, one line without a line break, for ParseVerifier
// and other readers of C2SP signed notes.
func (s *Signer) VerifierKey() string { return s.verifier.Key() }

// Sign returns the checkpoint as a signed note.
func (s *Signer) Sign(c Checkpoint) ([]byte, error) {
	if c.Origin != s.Origin() {
		return nil, fmt.Errorf("the key of %s cannot sign a checkpoint of %s", s.Origin(), c.Origin)
	}
	return note.Sign(&note.Note{Text: string(c.text())}, s.signer)
}

// Verifier opens checkpoints signed by one key. It is immutable and safe for
// concurrent use.
type Verifier struct {
	verifier note.Verifier
	key      string
}

// ParseVerifier reads a verifier key.
func ParseVerifier(text string) (*Verifier, error) {
	text = strings.TrimSpace(text)
	v, err := note.NewVerifier(text)
	if err != nil {
		return nil, fmt.Errorf("the verifier key is not one, want a line NAME+HASH+KEY: %w", err)
	}
	return &Verifier{v, text}, nil
}

// Origin is the origin of the key's log.
func (v *Verifier) Origin() string { return v.verifier.Name() }

// Key is the key's text.
func (v *Verifier) Key() string { return v.key }

// MarshalText is Key.
func (v *Verifier) MarshalText() ([]byte, error) { return []byte(v.key), nil }

// UnmarshalText is ParseVerifier.
func (v *Verifier) UnmarshalText(text []byte) error { return parsed(v, text, ParseVerifier) }

func parsed[K any](to *K, text []byte, parse func(string) (*K, error)) error {
	k, err := parse(string(text))
	if err == nil {
		*to = *k
	}
	return err
}

// Open checks a signed checkpoint and reads it. The error says whether it is not a note, is not
// signed by this key, or is of another log. Signatures by other keys, such as those of witnesses,
// are ignored.
func (v *Verifier) Open(signed []byte) (Checkpoint, error) {
	c, _, err := v.open(signed)
	return c, err
}

// OpenAlone is Open, and returns the checkpoint with the log's own signature only: anything that
// the sender has added is left out. It refuses more than MaxCheckpoint bytes.
func (v *Verifier) OpenAlone(signed []byte) (Checkpoint, []byte, error) {
	if len(signed) > MaxCheckpoint {
		return Checkpoint{}, nil, fmt.Errorf("a checkpoint of %d bytes: at most %d are read", len(signed), MaxCheckpoint)
	}
	c, n, err := v.open(signed)
	if err != nil {
		return Checkpoint{}, nil, err
	}
	n.UnverifiedSigs = nil
	alone, err := note.Sign(n)
	return c, alone, err
}

func (v *Verifier) open(signed []byte) (Checkpoint, *note.Note, error) {
	n, err := note.Open(signed, note.VerifierList(v.verifier))
	var unsigned *note.UnverifiedNoteError
	var invalid *note.InvalidSignatureError
	switch {
	case errors.As(err, &unsigned):
		return Checkpoint{}, nil, fmt.Errorf("the checkpoint is not signed by the key %s+%08x, but by %s",
			v.verifier.Name(), v.verifier.KeyHash(), signers(unsigned.Note))
	case errors.As(err, &invalid):
		return Checkpoint{}, nil, errors.New("the checkpoint's signature is wrong: it was altered after it was signed")
	case err != nil:
		return Checkpoint{}, nil, fmt.Errorf("not a signed checkpoint: %w", err)
	}
	c, err := parseCheckpoint(n.Text)
	if err != nil {
		return Checkpoint{}, nil, err
	}
	if c.Origin != v.Origin() {
		return Checkpoint{}, nil, fmt.Errorf("the checkpoint is of the log %s, the key of %s", c.Origin, v.Origin())
	}
	return c, n, nil
}

func signers(n *note.Note) string {
	var names []string
	for _, s := range n.UnverifiedSigs {
		names = append(names, fmt.Sprintf("%s+%08x", s.Name, s.Hash))
	}
	return strings.Join(names, ", ")
}
