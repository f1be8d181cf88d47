package checkout

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"payledger/domain"
)

// The HKDF labels that keep the keys derived from one master key apart. They
// are part of the format of links and forms and never change.
const (
	linkLabel = "payledger checkout link 1"
	formLabel = "payledger checkout form 1"

	fingerprintLabel = "payledger idempotency fingerprint 1"
)

// blockChars is the length of 16 bytes in unpadded base64url.
const blockChars = 22

// canonical is the only spelling of binary data in links and forms: base64url
// without padding and with its unused trailing bits zero.
var canonical = base64.RawURLEncoding.Strict() //nolint:gochecknoglobals // immutable

// Links turns payment ids into the tokens of payment links and back. A token
// is the version of the master key in decimal, followed by the 16 bytes of the
// id, encrypted as one AES-256 block and written in 22 characters of base64url.
// A Links is immutable and safe for concurrent use.
type Links struct {
	keys    map[int]linkKeys
	current int

	fingerprint []byte // HMAC key of Fingerprint
}

// linkKeys are derived from one version of the master key.
type linkKeys struct {
	block cipher.Block
	form  []byte // HMAC key of form tokens
}

// NewLinks derives the keys of links and forms from the master keys by
// version. Versions count from 1. current names the one for new links; the
// others keep the links they once made alive.
func NewLinks(master map[int][32]byte, current int) (*Links, error) {
	if _, ok := master[current]; !ok {
		return nil, fmt.Errorf("payment links: there is no master key of version %d", current)
	}
	l := &Links{keys: make(map[int]linkKeys, len(master)), current: current}
	for version, secret := range master {
		if version < 1 {
			return nil, fmt.Errorf("payment links: master key version %d: versions count from 1", version)
		}
		k, err := deriveKeys(secret)
		if err != nil {
			return nil, fmt.Errorf("payment links: master key version %d: %w", version, err)
		}
		l.keys[version] = k
	}
	first := master[slices.Min(slices.Collect(maps.Keys(master)))]
	var err error
	l.fingerprint, err = hkdf.Key(sha256.New, first[:], nil, fingerprintLabel, 32)
	return l, err
}

func deriveKeys(master [32]byte) (linkKeys, error) {
	link, err := hkdf.Key(sha256.New, master[:], nil, linkLabel, 32)
	if err != nil {
		return linkKeys{}, err
	}
	form, err := hkdf.Key(sha256.New, master[:], nil, formLabel, 32)
	if err != nil {
		return linkKeys{}, err
	}
	block, err := aes.NewCipher(link)
	return linkKeys{block: block, form: form}, err
}

// Current is the version of the master key that new links are made with.
func (l *Links) Current() int { return l.current }

// URL is the payment link: base (a URL without a trailing slash), "/p/" and
// the token. The same arguments always give the same link. It panics when the
// master key of that version is not among the keys, because the link that was
// made with it cannot be made again. Without any keys, of a nil Links, the link is "".
func (l *Links) URL(base string, version int, id domain.ID) string {
	if l == nil {
		return ""
	}
	room := make([]byte, 0, 128) // for most
	return string(l.appendToken(append(append(room, base...), pathPrefix...), version, id))
}

// pathPrefix is where the handler is mounted.
const pathPrefix = "/p/"

func (l *Links) appendToken(to []byte, version int, id domain.ID) []byte {
	k, ok := l.keys[version]
	if !ok {
		panic(fmt.Sprintf("payment links: the master key of version %d is missing", version))
	}
	k.block.Encrypt(id[:], id[:])
	return canonical.AppendEncode(strconv.AppendInt(to, int64(version), 10), id[:])
}

// Open returns the id in a token. Only the exact spelling of URL is a token. Any other block
// decrypts too, to an id that no payment has, so callers look the payment up before they trust the
// id.
func (l *Links) Open(token string) (domain.ID, bool) {
	id, _, ok := l.open(token)
	return id, ok
}

func (l *Links) open(token string) (id domain.ID, version int, ok bool) {
	split := len(token) - blockChars
	if split < 1 {
		return domain.ID{}, 0, false
	}
	version, err := strconv.Atoi(token[:split])
	if err != nil || strconv.Itoa(version) != token[:split] {
		return domain.ID{}, 0, false
	}
	k, ok := l.keys[version]
	if !ok {
		return domain.ID{}, 0, false
	}
	// The decoder skips line breaks; what they displace is missing at the end.
	in, err := canonical.DecodeString(token[split:])
	if err != nil || len(in) != len(id) {
		return domain.ID{}, 0, false
	}
	k.block.Decrypt(id[:], in)
	return id, version, true
}

// Fingerprint is a MAC of what was asked for under an idempotency key. Its key is derived from the
// oldest master key, so it stays the same when another one is added.
func (l *Links) Fingerprint(request []byte) domain.Digest {
	m := hmac.New(sha256.New, l.fingerprint)
	m.Write(request)
	return domain.Digest(m.Sum(nil))
}
