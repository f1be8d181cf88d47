package translog

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	cosignature "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
)

// Witness verifies the cosignatures of one witness: a party that has a copy of the log, compared a
// checkpoint with it and signed that checkpoint too (https://c2sp.org/tlog-cosignature). It is
// immutable and safe for concurrent use.
type Witness struct {
	verifier note.Verifier
	public   string // the key without its name
	key      string
}

// ParseWitness reads a witness's verifier key, NAME+HASH+KEY on one line, of the
// types Ed25519 (0x04) and ML-DSA-44 (0x06) of cosignatures. The key of a log is
// refused: a log cannot vouch for itself.
func ParseWitness(text string) (*Witness, error) {
	text = strings.TrimSpace(text)
	if _, err := note.NewVerifier(text); err == nil {
		return nil, errors.New("this is a log's key, not a witness's: a log cannot vouch for itself")
	}
	v, err := cosignature.NewVerifierForCosignatureV1(text)
	if err != nil {
		return nil, fmt.Errorf("the witness's key is not one, want a line NAME+HASH+KEY: %w", err)
	}
	// The library does not compare the hash, so an altered line would pass.
	_, rest, _ := strings.Cut(text, "+")
	hash, public, _ := strings.Cut(rest, "+")
	if hash != fmt.Sprintf("%08x", v.KeyHash()) {
		return nil, errors.New("the witness's key was altered: its hash does not match")
	}
	return &Witness{v, public, text}, nil
}

// Name is the witness's name.
func (w *Witness) Name() string { return w.verifier.Name() }

// Key is the key's text.
func (w *Witness) Key() string { return w.key }

// MarshalText is Key.
func (w *Witness) MarshalText() ([]byte, error) { return []byte(w.key), nil }

// UnmarshalText is ParseWitness.
func (w *Witness) UnmarshalText(text []byte) error { return parsed(w, text, ParseWitness) }

// Same reports whether both are the same key, under the same name or another.
func (w *Witness) Same(o *Witness) bool { return w.public == o.public }

// Cosigned reports whether the witness cosigned the checkpoint, and when, by its own clock in whole
// seconds. The signature of the log is ignored.
func (w *Witness) Cosigned(signed []byte) (at time.Time, ok bool) {
	n, err := note.Open(signed, note.VerifierList(w.verifier))
	if err != nil || len(n.Sigs) != 1 {
		return time.Time{}, false
	}
	at, err = cosignature.CoSigV1Timestamp(n.Sigs[0])
	return at.UTC(), err == nil
}

// AddFrom adds the witness's cosignature that one copy of a checkpoint has to another
// copy; ok is false if it has none that is right for that one.
func (w *Witness) AddFrom(cosigned, to []byte) (_ []byte, ok bool) {
	from, err := note.Open(cosigned, note.VerifierList(w.verifier))
	if err != nil || len(from.Sigs) != 1 {
		return nil, false
	}
	n, err := note.Open(to, note.VerifierList())
	if unsigned := (*note.UnverifiedNoteError)(nil); errors.As(err, &unsigned) {
		n = unsigned.Note
	}
	if n == nil || n.Text != from.Text {
		return nil, false
	}
	own := from.Sigs[0]
	others := slices.DeleteFunc(n.UnverifiedSigs, func(s note.Signature) bool { return s.Name == own.Name && s.Hash == own.Hash })
	out, err := note.Sign(&note.Note{Text: n.Text, UnverifiedSigs: append(others, own)})
	return out, err == nil
}

// Cosigner signs checkpoints as a witness. It is immutable and safe for
// concurrent use.
type Cosigner struct {
	signer note.Signer
	public string
}

// cosignatureEd25519 is the type of witnesses' Ed25519 keys.
const cosignatureEd25519 = 4

// NewWitnessKey makes the private key of a witness, as one line of text without
// a line break. It is secret. The name is the witness's own: not empty, without
// spaces and plus signs.
func NewWitnessKey(random io.Reader, name string) (string, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return "", fmt.Errorf("making a witness's key: %w", err)
	}
	key := base64.StdEncoding.EncodeToString(append([]byte{cosignatureEd25519}, seed...))
	signer, err := cosignature.NewSignerForCosignatureV1("PRIVATE+KEY+" + name + "+00000000+" + key)
	if err != nil {
		return "", fmt.Errorf("a witness's name is one word without plus signs: %q is not", name)
	}
	return fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", name, signer.KeyHash(), key), nil
}

// ParseCosigner reads a key made by NewWitnessKey. Errors do not contain the key.
func ParseCosigner(text string) (*Cosigner, error) {
	text = strings.TrimSpace(text)
	hash, key := publicOf(text)
	if len(key) == 0 || key[0] != cosignatureEd25519 {
		return nil, errors.New("want one line \"PRIVATE+KEY+…\" of a witness's Ed25519 key")
	}
	signer, err := cosignature.NewSignerForCosignatureV1(text)
	if err != nil || hash != fmt.Sprintf("%08x", signer.KeyHash()) {
		return nil, errors.New("the witness's key was altered: its hash does not match")
	}
	return &Cosigner{signer, base64.StdEncoding.EncodeToString(key)}, nil
}

// VerifierKey is the public key, one line without a line break, for ParseWitness
// and other readers of C2SP cosignatures.
func (c *Cosigner) VerifierKey() string {
	return fmt.Sprintf("%s+%08x+%s", c.signer.Name(), c.signer.KeyHash(), c.public)
}

// Cosign adds the witness's signature, at the time it has now, to a checkpoint
// that log signed. Signatures of others stay, an earlier one of this witness is
// replaced. The caller has compared the checkpoint with its own copy of the log,
// and has never vouched for a different tree: that is what a cosignature says.
func (c *Cosigner) Cosign(log *Verifier, signed []byte) ([]byte, error) {
	_, n, err := log.open(signed)
	if err != nil {
		return nil, err
	}
	return note.Sign(&note.Note{Text: n.Text, Sigs: n.Sigs, UnverifiedSigs: n.UnverifiedSigs}, c.signer)
}
