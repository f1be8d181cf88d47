package translog

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/tlog"

	"payledger/domain"
	"payledger/eventstore"
)

// Receipt is the proof that a log holds the events of a payment: their stored bytes, the inclusion
// of each in the tree of a checkpoint, and that checkpoint.
type Receipt struct {
	Payment    domain.ID
	Events     []ProvenEvent // in the order of the log
	Checkpoint []byte        // a signed note, maybe cosigned
}

// ProvenEvent is an event's stored bytes and its inclusion.
type ProvenEvent struct {
	Position eventstore.Position
	Body     []byte
	Hashes   []tlog.Hash
}

// MaxReceipt is the maximum size in bytes of a receipt read from outside.
const MaxReceipt = 8 << 20

// ReceiptStart is what a receipt begins with.
const ReceiptStart = "payledger receipt v1\n"

// Text is the receipt as text, see the package's documentation.
func (r Receipt) Text() []byte {
	out := fmt.Appendf(nil, "%spayment %s\nevents %d\n\n", ReceiptStart, r.Payment, len(r.Events))
	for _, e := range r.Events {
		p := proof.TLogProof{Index: uint64(e.Position) - 1}
		for _, h := range e.Hashes {
			p.Hashes = append(p.Hashes, h)
		}
		out = append(append(append(out, e.Body...), '\n'), p.Marshal()...)
	}
	return append(out, r.Checkpoint...)
}

// ParseReceipt reads what Text wrote: exactly that, so that of two texts at most one is a receipt of
// the same. Nothing is proved by that.
func ParseReceipt(text []byte) (r Receipt, err error) {
	if len(text) > MaxReceipt {
		return r, fmt.Errorf("not a receipt: it has %d bytes", len(text))
	}
	blocks := strings.Split(string(text), "\n\n")
	events := 0
	var id string
	if _, err := fmt.Sscanf(blocks[0]+"\n", ReceiptStart+"payment %s\nevents %d\n", &id, &events); err != nil {
		return r, errors.New("not a receipt: it does not begin as one")
	}
	r.Payment, _ = domain.ParseID(id)
	if events < 1 || events > len(blocks)-2 {
		return r, errors.New("not a receipt: it does not have as many events as it says, and a checkpoint")
	}
	for n, block := range blocks[1 : events+1] {
		body, text, _ := strings.Cut(block, "\n")
		var p proof.TLogProof
		if err := p.Unmarshal([]byte(text + "\n\n")); err != nil {
			return r, fmt.Errorf("not a receipt: event %d: %w", n+1, err)
		}
		e := ProvenEvent{Position: eventstore.Position(p.Index) + 1, Body: []byte(body)}
		for _, h := range p.Hashes {
			e.Hashes = append(e.Hashes, h)
		}
		r.Events = append(r.Events, e)
	}
	r.Checkpoint = []byte(strings.Join(blocks[events+1:], "\n\n"))
	if !bytes.Equal(r.Text(), text) || !strictSignatures(r.Checkpoint) {
		return r, errors.New("not a receipt: it was altered in its form")
	}
	return r, nil
}

// strictSignatures reports whether the signatures of a note are written in the one way there is.
func strictSignatures(signed []byte) bool {
	_, signatures, ok := bytes.Cut(signed, []byte("\n\n"))
	for line := range strings.Lines(string(signatures)) {
		line, ended := strings.CutSuffix(line, "\n")
		sig := line[strings.LastIndexByte(line, ' ')+1:]
		raw, err := base64.StdEncoding.Strict().DecodeString(sig)
		ok = ok && ended && err == nil && len(raw) > 0
	}
	return ok
}

// Check returns nil if the checkpoint's tree has all events of the receipt, in this order.
func (r Receipt) Check(c Checkpoint) error {
	var last eventstore.Position
	for n, e := range r.Events {
		if e.Position <= last || e.Position > c.Size {
			return fmt.Errorf("event %d: position %d follows %d, and the checkpoint covers %d events", n+1, e.Position, last, c.Size)
		}
		if err := (InclusionProof{e.Position, c.Size, e.Hashes}).Check(c, e.Body); err != nil {
			return fmt.Errorf("event %d: %w", n+1, err)
		}
		last = e.Position
	}
	return nil
}

// Stated is the checkpoint that a signed one states. Its signature is not checked.
func Stated(signed []byte) (Checkpoint, error) {
	text, _, _ := bytes.Cut(signed, []byte("\n\n"))
	return parseCheckpoint(string(text) + "\n")
}
