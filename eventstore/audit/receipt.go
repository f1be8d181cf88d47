package audit

import (
	"encoding/hex"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/translog"
)

// ReceiptReport is what a receipt proves: the state of a payment after its last event, as of the
// checkpoint. Whether the payment has later events it cannot prove.
type ReceiptReport struct {
	Payment   domain.ID            `json:"payment_id"`
	Project   string               `json:"project_id"`
	Status    domain.PaymentStatus `json:"status"`
	Amount    domain.Amount        `json:"amount"`
	Currency  domain.Currency      `json:"currency"`
	Refunds   []ReceiptRefund      `json:"refunds"`
	Events    []ReceiptEvent       `json:"events"`
	Origin    string               `json:"origin"` // of the log
	Size      eventstore.Position  `json:"size"`   // how many events of the log the checkpoint covers
	Root      tlog.Hash            `json:"root"`
	Witnesses []WitnessResult      `json:"witnesses,omitempty"` // those whose keys were given
}

// ReceiptRefund is a refund of the payment.
type ReceiptRefund struct {
	ID       domain.ID           `json:"id"`
	Status   domain.RefundStatus `json:"status"`
	Returned bool                `json:"returned,omitzero"`
}

// ReceiptEvent is an event that the receipt proves.
type ReceiptEvent struct {
	Position eventstore.Position `json:"position"`
	Type     string              `json:"type"`
	At       domain.Instant      `json:"at"`
	Actor    string              `json:"actor,omitempty"`
	Leaf     string              `json:"leaf"` // its hash in the tree, in hex
}

// CheckReceipt judges a receipt by the keys in the options: that a key of the log signed its
// checkpoint and enough witnesses did too, that the tree has its events, and that they are those of
// one payment, from the first one on, without gaps, each as the rules lead to it.
func CheckReceipt(text []byte, o Options) (*ReceiptReport, error) {
	r, err := translog.ParseReceipt(text)
	if err != nil {
		return nil, err
	}
	point, err := open(r.Checkpoint, o.Verifiers)
	if err != nil {
		return nil, fmt.Errorf("its checkpoint: %w", err)
	}
	if err := r.Check(point); err != nil {
		return nil, err
	}
	out := &ReceiptReport{
		Payment: r.Payment, Refunds: []ReceiptRefund{}, Origin: point.Origin, Size: point.Size, Root: point.Root,
		Witnesses: cosigned(r.Checkpoint, o.Witnesses),
	}
	if n := (CheckpointResult{Witnesses: out.Witnesses}).Vouching(); n < o.Quorum {
		return nil, fmt.Errorf("%d witnesses must vouch for its checkpoint, %d do", o.Quorum, n)
	}
	var p domain.Payment
	for n, e := range r.Events {
		record, err := recordOf(e.Position, e.Body)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", n+1, err)
		}
		if n == 0 {
			p = domain.Payment{Project: record.Stream.Project, ID: r.Payment}
		}
		if record.Stream != eventstore.PaymentStream(p.Project, r.Payment) || record.Sequence != uint64(n+1) {
			return nil, fmt.Errorf("event %d is %s, sequence %d, want sequence %d of payment %s", n+1, nameOf(record.Stream), record.Sequence, n+1, r.Payment)
		}
		event, version, err := o.Codec.DecodeVersion(record)
		if err == nil {
			err = p.Redecide(event, domain.Recorded{At: domain.IDTime(record.Commit), Version: version})
		}
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", n+1, err)
		}
		p = p.Evolve(event)
		leaf := translog.Leaf(e.Body)
		out.Events = append(out.Events, ReceiptEvent{
			Position: e.Position, Type: event.Type(), At: domain.IDTime(record.Commit), Actor: eventstore.CauseOf(e.Body).Actor, Leaf: hex.EncodeToString(leaf[:]),
		})
	}
	out.Project, out.Status, out.Amount, out.Currency = p.Project, p.Status, p.Amount, p.Currency
	for _, of := range p.Refunds {
		out.Refunds = append(out.Refunds, ReceiptRefund{of.ID, of.Status, of.Returned})
	}
	return out, nil
}
