package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/transparency-dev/formats/proof"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/translog"
)

// judge judges a receipt by the verifier key of this server.
func (s *server) judge(receipt []byte) (*audit.ReceiptReport, error) {
	v, err := translog.ParseVerifier(s.verifierKey)
	if err != nil {
		return nil, err
	}
	return audit.CheckReceipt(receipt, audit.Options{Codec: eventstore.NewCodec(), Against: audit.Against{Verifiers: []*translog.Verifier{v}}})
}

// proven is a payment with a life of four events, and its receipt.
func proven(t *testing.T, s *server) (id string, receipt []byte) {
	t.Helper()
	m := s.merchant("", "payments:write", "refunds:write", "read", "audit")
	m.pay(`{"amount":1}`).want(201, "")
	p := m.pay(`{"amount":"10","description":"order-1042","payload":{"cart":7}}`).want(201, "").object()
	payment, _ := domain.ParseID(p.ID)
	s.settle(m, payment, domain.OutcomePaid)
	m.pay(`{"amount":1}`).want(201, "")
	m.post("/v1/refunds", `{"payment_id":"`+p.ID+`"}`).want(201, "")
	for range 40 {
		m.pay(`{"amount":1}`).want(201, "")
	}
	r := m.get("/v1/payments/"+p.ID+"/proof").want(200, "")
	if got := r.Header.Get("Content-Disposition"); got != `attachment; filename="`+p.ID+`.receipt"` {
		t.Error(got)
	}
	return p.ID, r.Body
}

// Libraries that know nothing of payledger accept each event of a receipt.
func TestForeignLibrariesAcceptReceipts(t *testing.T) {
	t.Parallel()
	s := start(t)
	id, receipt := proven(t, s)
	if len(receipt) > 8<<10 {
		t.Errorf("the receipt has %d bytes", len(receipt))
	}
	blocks := bytes.SplitAfter(receipt, []byte("\n\n"))
	head, events, checkpoint := blocks[0], blocks[1:5], bytes.Join(blocks[5:], nil)
	if want := "payledger receipt v1\npayment " + id + "\nevents 4\n\n"; string(head) != want {
		t.Fatalf("%q", head)
	}
	for i, block := range events {
		body, rest, _ := bytes.Cut(block, []byte("\n"))
		var p proof.TLogProof
		if err := p.Unmarshal(append(rest, checkpoint...)); err != nil {
			t.Fatal(err)
		}
		v, err := note.NewVerifier(s.verifierKey)
		if err != nil {
			t.Fatal(err)
		}
		n, err := note.Open(p.Checkpoint, note.VerifierList(v))
		if err != nil {
			t.Fatal(err)
		}
		var origin, root string
		var size int64
		if _, err := fmt.Sscanf(n.Text, "%s\n%d\n%s\n", &origin, &size, &root); err != nil {
			t.Fatal(err)
		}
		hash, err := tlog.ParseHash(root)
		if err != nil {
			t.Fatal(err)
		}
		path := make(tlog.RecordProof, len(p.Hashes))
		for i, h := range p.Hashes {
			path[i] = h
		}
		if err := tlog.CheckRecord(path, size, hash, int64(p.Index), tlog.RecordHash(body)); err != nil {
			t.Errorf("event %d: %v", i+1, err)
		}
	}
	report, err := s.judge(receipt)
	if err != nil || report.Status != domain.Paid || len(report.Refunds) != 1 || len(report.Events) != 4 || !strings.HasPrefix(report.Events[0].Actor, "key_") {
		t.Errorf("%+v: %v", report, err)
	}
}

// Where nothing new is signed there is no receipt of a payment that came after the newest checkpoint.
func TestNoReceiptUnderAnOlderCheckpoint(t *testing.T) {
	t.Parallel()
	var signed []byte
	s := start(t, func(cfg *settings) {
		cfg.Checkpoint = func(context.Context) ([]byte, error) { return signed, nil }
	})
	m := s.merchant("", "payments:write", "read", "audit")
	before := m.pay(`{"amount":1}`).want(201, "").object().ID
	var err error
	if signed, err = s.sign(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := m.pay(`{"amount":1}`).want(201, "").object().ID
	m.get("/v1/payments/"+before+"/proof").want(200, "")
	p := m.get("/v1/payments/"+after+"/proof").want(503, domain.Unavailable).problem()
	if !strings.Contains(p.Detail, "older than the payment") {
		t.Error(p.Detail)
	}
}

// Of a receipt that was altered in whatever way nothing is accepted.
func TestAlteredReceiptsAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, receipt := proven(t, s)
	other := start(t)
	_, theirs := proven(t, other)
	r, err := translog.ParseReceipt(receipt)
	if err != nil {
		t.Fatal(err)
	}
	o, err := translog.ParseReceipt(theirs)
	if err != nil {
		t.Fatal(err)
	}
	strangers := s.merchant("", "payments:write", "read", "audit")
	stranger, err := translog.ParseReceipt(strangers.get("/v1/payments/"+strangers.pay(`{"amount":5}`).want(201, "").object().ID+"/proof").want(200, "").Body)
	if err != nil {
		t.Fatal(err)
	}
	type mutant struct {
		name string
		text []byte
	}
	var all []mutant
	add := func(name string, change func(*translog.Receipt)) {
		m := r
		m.Events = append([]translog.ProvenEvent{}, r.Events...)
		change(&m)
		all = append(all, mutant{name, m.Text()})
	}
	blocks := bytes.SplitAfter(receipt, []byte("\n\n"))
	for i := range r.Events {
		all = append(all, mutant{fmt.Sprintf("event %d cut out", i+1), bytes.Join(append(blocks[:i+1:i+1], blocks[i+2:]...), nil)})
		if i < len(r.Events)-1 { // else it is a true receipt of the time before its last event
			add(fmt.Sprintf("event %d left out", i+1), func(m *translog.Receipt) { m.Events = append(m.Events[:i], m.Events[i+1:]...) })
		}
		add(fmt.Sprintf("event %d twice", i+1), func(m *translog.Receipt) { m.Events = append(m.Events[:i+1], r.Events[i:]...) })
		add(fmt.Sprintf("leaf %d of another log", i+1), func(m *translog.Receipt) { m.Events[i].Body = o.Events[i].Body })
		add(fmt.Sprintf("event %d of another log", i+1), func(m *translog.Receipt) { m.Events[i] = o.Events[i] })
		add(fmt.Sprintf("proof %d of another log", i+1), func(m *translog.Receipt) { m.Events[i].Hashes = o.Events[i].Hashes })
		add(fmt.Sprintf("event %d of another payment", i+1), func(m *translog.Receipt) { m.Events[i] = stranger.Events[0] })
		add(fmt.Sprintf("position of event %d", i+1), func(m *translog.Receipt) { m.Events[i].Position++ })
		add(fmt.Sprintf("amount in event %d", i+1), func(m *translog.Receipt) {
			m.Events[i].Body = bytes.Replace(m.Events[i].Body, []byte("10.00"), []byte("90.00"), 1)
		})
		add(fmt.Sprintf("a hash of event %d left out", i+1), func(m *translog.Receipt) { m.Events[i].Hashes = m.Events[i].Hashes[1:] })
		for j := range i {
			add(fmt.Sprintf("events %d and %d in the other order", j+1, i+1), func(m *translog.Receipt) {
				m.Events[i], m.Events[j] = m.Events[j], m.Events[i]
			})
			add(fmt.Sprintf("leaves %d and %d swapped", j+1, i+1), func(m *translog.Receipt) {
				m.Events[i].Body, m.Events[j].Body = m.Events[j].Body, m.Events[i].Body
			})
		}
	}
	add("checkpoint of another log", func(m *translog.Receipt) { m.Checkpoint = o.Checkpoint })
	add("another payment's name", func(m *translog.Receipt) { m.Payment = stranger.Payment })
	all = append(all, mutant{"cut off", receipt[:len(receipt)-1]}, mutant{"longer", append(bytes.Clone(receipt), '\n')}, mutant{"all of another log", theirs})
	random := rand.New(rand.NewPCG(1, 2))
	for len(all) < 160 {
		flipped := bytes.Clone(receipt)
		at, bit := random.IntN(len(flipped)), byte(1)<<random.IntN(8)
		flipped[at] ^= bit
		all = append(all, mutant{fmt.Sprintf("bit %08b of byte %d flipped", bit, at), flipped})
	}
	for _, m := range all {
		if bytes.Equal(m.text, receipt) {
			if !strings.HasPrefix(m.name, "amount in") {
				t.Errorf("%s: it changes nothing", m.name)
			}
			continue
		}
		if report, err := s.judge(m.text); err == nil {
			t.Errorf("%s: accepted: %+v", m.name, report)
		}
	}
	if _, err := s.judge(receipt); err != nil {
		t.Error(err)
	}
}

func TestReceiptsAreTheirProjects(t *testing.T) {
	t.Parallel()
	s := start(t)
	id, _ := proven(t, s)
	s.merchant("", "audit").get("/v1/payments/"+id+"/proof").want(404, domain.PaymentNotFound)
	s.merchant("", "read").get("/v1/payments/"+id+"/proof").want(403, domain.ScopeMissing)
	s.merchant("", "audit").get("/v1/payments/nope/proof").want(404, domain.PaymentNotFound)
}
