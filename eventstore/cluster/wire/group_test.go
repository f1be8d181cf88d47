package wire

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/eventstore/bolt"
)

func sampleGroup() *bolt.Group {
	return &bolt.Group{
		Number: 17, Nonce: bolt.Nonce{1, 15: 9}, Writer: domain.ID{3}, At: 1_795_169_730_123, First: 41, Before: [32]byte{5, 31: 6},
		Records: [][]byte{[]byte("the first record"), bytes.Repeat([]byte("second "), 40)},
	}
}

// The bytes of a message never change within a format: nodes of two versions of the
// program read each other's.
func TestMessage(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/message-1.hex")
	if err != nil {
		t.Fatal(err)
	}
	g := sampleGroup()
	b := EncodeGroup(g)
	if got := hex.EncodeToString(b); got != strings.TrimSpace(string(want)) {
		t.Errorf("the message is now\n%s", got)
	}
	if got, err := DecodeGroup(b); err != nil || !reflect.DeepEqual(got, g) {
		t.Errorf("%+v, %v", got, err)
	}
	for i := range b {
		wrong := bytes.Clone(b)
		wrong[i] ^= 1 << (i % 8)
		if _, err := DecodeGroup(wrong); err == nil {
			t.Errorf("a wrong bit in byte %d is not noticed", i)
		}
		if _, err := DecodeGroup(b[:i]); err == nil {
			t.Errorf("the first %d bytes are taken for a message", i)
		}
	}
	empty := &bolt.Group{Number: 1, Nonce: bolt.Nonce{1}, End: true}
	if got, err := DecodeGroup(EncodeGroup(empty)); err != nil || !reflect.DeepEqual(got, empty) {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzMessage(f *testing.F) {
	f.Add(EncodeGroup(sampleGroup()))
	f.Add(EncodeGroup(&bolt.Group{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if g, err := DecodeGroup(b); err == nil && !bytes.Equal(EncodeGroup(g), b) {
			t.Errorf("%x is read as %x", b, EncodeGroup(g))
		}
	})
}
