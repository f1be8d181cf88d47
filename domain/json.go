package domain

import "encoding/hex"

// JSON is a JSON value, byte for byte: escapes, digits and the order of members are as the merchant
// sent them.
type JSON []byte

// EmptyObject is the payload of a payment that was created without one.
func EmptyObject() JSON { return JSON("{}") }

// MarshalJSON returns the bytes themselves.
func (j JSON) MarshalJSON() ([]byte, error) {
	if len(j) == 0 {
		return []byte("null"), nil
	}
	return j, nil
}

// UnmarshalJSON keeps a copy of the bytes.
func (j *JSON) UnmarshalJSON(b []byte) error {
	*j = append((*j)[:0:0], b...)
	return nil
}

// Digest is a SHA-256 sum, written in lower-case hexadecimal.
type Digest [32]byte

// String writes the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText writes the digest as String does.
func (d Digest) MarshalText() ([]byte, error) { return d.AppendText(nil) }

// AppendText appends the digest as String writes it.
func (d Digest) AppendText(b []byte) ([]byte, error) { return hex.AppendEncode(b, d[:]), nil }

// UnmarshalText reads exactly 64 hexadecimal digits.
func (d *Digest) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(d) || len(text)%2 != 0 {
		return hex.ErrLength
	}
	_, err := hex.Decode(d[:], text)
	return err
}
