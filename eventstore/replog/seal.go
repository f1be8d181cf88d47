package replog

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

const (
	sealLabel = "payledger, details in LOG"
	sealMore  = 16 // bytes of GCM's tag, by which sealed details are longer
)

var errSealed = errors.New("its details were encrypted by another cluster.key, or changed")

// cipherOf is AES-256-GCM under the key of one group, which is HKDF-SHA256 of Config.Key with the
// group's nonce as salt. The nonce names exact bytes and no other group has it, so within a group the
// number of a record is a nonce for GCM.
func cipherOf(key []byte, group Nonce) cipher.AEAD {
	of, err := hkdf.Key(sha256.New, key, group[:], sealLabel, 32)
	if err != nil {
		panic(err) // 32 bytes can be derived from any key
	}
	block, err := aes.NewCipher(of)
	if err != nil {
		panic(err) // it takes 32 bytes
	}
	c, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // AES has blocks of 16 bytes
	}
	return c
}

// seal encrypts the details of record i of a group. They open for this record alone.
func seal(c cipher.AEAD, i int, record, details []byte) []byte {
	return c.Seal(nil, sealNonce(i), details, record)
}

// open is the inverse of seal.
func open(c cipher.AEAD, i int, record, sealed []byte) ([]byte, error) {
	details, err := c.Open(nil, sealNonce(i), sealed, record)
	if err != nil {
		return nil, errSealed
	}
	return details, nil
}

func sealNonce(i int) []byte { return binary.BigEndian.AppendUint64(make([]byte, 4), uint64(i)) }
