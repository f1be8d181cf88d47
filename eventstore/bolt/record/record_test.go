package record

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/eventstore"
)

// The layout of a record is fixed: files are kept for years.
func TestRecordFormat(t *testing.T) {
	t.Parallel()
	id := domain.ID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	payment := eventstore.PaymentStream("prj_"+domain.ID{7, 15: 1}.String(), domain.ID{7, 15: 2})
	line := `{"id":"01081G81860W40J2GB1G6GW3RG","type":"payment.paid","version":1,"project":"` + payment.Project +
		`","kind":"payment","stream":"` + payment.ID + `","sequence":3,"at":"2005-02-11T20:02:37.446Z","data":{"signal":{"route":"sandbox"},"x":"2005-02-11TY"}}`
	const ids = " 07000000000000000000000000000001 07000000000000000000000000000002"
	claim := &eventstore.Claim{Key: domain.Digest{0xaa}, Fingerprint: domain.Digest{0xbb}}
	for name, test := range map[string]struct {
		stream eventstore.Stream
		claim  *eventstore.Claim
		body   string
		want   string
	}{
		"plain": {
			eventstore.Stream{Project: "prq", Kind: "kind of", ID: "id"},
			nil, "{}",
			"7b5e9a86 03 00 0102030405060708090a0b0c0d0e0f10 03 02 03707271 076b696e64206f66 026964 7b7d",
		},
		"claim": {
			eventstore.Stream{Project: "prq", Kind: "kind of", ID: "id"},
			claim, "{}",
			"64822fc7 03 01 0102030405060708090a0b0c0d0e0f10 03 02" +
				" aa" + strings.Repeat("00", 31) + " bb" + strings.Repeat("00", 31) + " 03707271 076b696e64206f66 026964 7b7d",
		},
		"payment": {payment, nil, "{\n}", "95ed3e77 03 04 0102030405060708090a0b0c0d0e0f10 03 02" + ids + " 7b0a7d"},
		"compressed": {
			payment, nil, line,
			"643d4f23 03 06 0102030405060708090a0b0c0d0e0f10 03 02" + ids +
				" a7c3e6d8 8d02807b226964223a2230313038314738313836305734304a324742314736475733524746e7013e6f0346e401043730560100003176e4015e3700003232e401796f5030352d30322d31315432303a30323a33372e3434362ee401666f030c7d2c22782e440014315459227d7d",
		},
	} {
		want := eventstore.Stored{
			Position: 9, Stream: test.stream, Sequence: 3, Prev: 7, Commit: id, Claim: test.claim, Body: []byte(test.body),
		}
		want.At = domain.IDTime(want.Commit).Time()
		b := Append(nil, &want)
		if got := hex.EncodeToString(b); got != strings.ReplaceAll(test.want, " ", "") {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		got, err := Decode(9, b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" || string(got.Body) != test.body {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if _, err := Decode(10, b); err == nil {
			t.Errorf("%s: it is accepted at another position", name)
		}
	}
}

// A record with a right checksum and wrong lengths is refused as well; any
// other is, written again, the same record.
func FuzzRecord(f *testing.F) {
	r := eventstore.Stored{Position: 1, Stream: eventstore.ProjectStream("prj_1"), Sequence: 1, Commit: domain.ID{1}, Body: []byte("{}")}
	f.Add(Append(nil, &r)[4:])
	r.Claim = &eventstore.Claim{}
	f.Add(Append(nil, &r)[4:])
	r.Stream = eventstore.PaymentStream(projectPrefix+domain.ID{1}.String(), domain.ID{2})
	r.Body = []byte(`{"id":"` + r.Commit.String() + `","type":"payment.paid"}`)
	f.Add(Append(nil, &r)[4:])
	f.Fuzz(func(t *testing.T, b []byte) {
		sum := checksum(1, b)
		b = append([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}, b...)
		r, err := Decode(1, b)
		if err != nil {
			return
		}
		same := r
		again, err := Decode(1, Append(nil, &same))
		if d := cmp.Diff(r, again); err != nil || d != "" {
			t.Errorf("%x: %v, (-read +written and read again):\n%s", b, err, d)
		}
	})
}

// FuzzBody: whatever a body is, it is the same when it is read.
func FuzzBody(f *testing.F) {
	f.Add([]byte(dictionaryText))
	f.Add([]byte("\x00"))
	f.Add(bytes.Repeat([]byte(`{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C6","type":"`), 1500))
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 || len(body) > eventstore.MaxBody {
			return
		}
		want := eventstore.Stored{
			Position: 1, Stream: eventstore.PaymentStream(projectPrefix+domain.ID{1}.String(), domain.ID{2}), Sequence: 1,
			Commit: domain.ID{3}, Body: body,
		}
		want.At = domain.IDTime(want.Commit).Time()
		got, err := Decode(1, Append(nil, &want))
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%v, (-want +got):\n%s", err, d)
		}
	})
}

// TestCompressedBodies: a damaged body is an error, whatever the damage is.
func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	room := func(n int) []byte { return make([]byte, 0, n) }
	body := []byte(dictionaryText[500:1200] + "!")
	good, shorter := compress(nil, body)
	if !shorter {
		t.Fatal("the body is not compressed")
	}
	if got, err := decompress(good, room); err != nil || !bytes.Equal(got, body) {
		t.Fatalf("%q, %v", got, err)
	}
	for i := range good {
		if _, err := decompress(good[:i], room); err == nil {
			t.Errorf("%d bytes of it are accepted", i)
		}
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			if got, err := decompress(bad, room); err == nil && !bytes.Equal(got, body) {
				t.Errorf("bit %d of byte %d: %q", bit, i, got)
			}
		}
	}
	huge := binary.AppendUvarint([]byte{0, 0, 0, 0}, eventstore.MaxBody+1)
	if _, err := decompress(huge, room); err == nil {
		t.Error("a body beyond the bound is accepted")
	}
	if sum := sha256.Sum256([]byte(dictionaryText)); hex.EncodeToString(sum[:4]) != "82b59fe5" {
		t.Errorf("the dictionary has changed (%x): bodies that were written with the old one could not be read", sum[:4])
	}
}

// BenchmarkRecord tells what the form of a record costs, and saves.
func BenchmarkRecord(b *testing.B) {
	ids := domain.NewIDs(time.Now, rand.Reader, domain.ID{})
	id, event := ids.Pair()
	r := eventstore.Stored{
		Position: 7, Stream: eventstore.PaymentStream(projectPrefix+ids.Next().String(), id), Sequence: 1, Commit: event,
		Claim: &eventstore.Claim{Key: sha256.Sum256(id[:]), Fingerprint: sha256.Sum256(event[:])},
	}
	description, at := "order-1042", domain.IDTime(event)
	var err error
	r.Body, err = eventstore.NewCodec().Encode(r.Stream, r.Sequence, event, eventstore.Cause{}, domain.PaymentCreated{
		CreatedAt: at, ExpiresAt: at.Add(time.Hour), Amount: 150000, Currency: domain.DefaultCurrency,
		Description: &description, Payload: domain.JSON(`{"cart":7,"customer":"c-8841"}`),
		Link:        domain.Link{Base: "https://pay.example.com", KeyVersion: 1, Render: 1},
		Idempotency: &domain.Idempotency{Key: r.Claim.Key, Fingerprint: r.Claim.Fingerprint},
	})
	if err != nil {
		b.Fatal(err)
	}
	record := Append(nil, &r)
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			record = Append(record[:0], &r)
		}
		b.ReportMetric(float64(len(record)), "bytes")
		b.ReportMetric(float64(len(r.Body)), "body-bytes")
	})
	b.Run("decode", func(b *testing.B) {
		var d Decoder
		for b.Loop() {
			if _, err := d.Decode(7, record); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestFind: bytes that match a checksum by chance, as some of a file's millions do, are no record unless
// they hold an event.
func TestFind(t *testing.T) {
	t.Parallel()
	for body, whole := range map[string]bool{
		`{"id":"x"}`: true, "{}": false, "\x00": false, "x}": false, `{"id":"x"`: false, `"id"`: false,
	} {
		r := eventstore.Stored{
			Position: 7, Sequence: 1, Commit: [16]byte{1}, Body: []byte(body), Stream: eventstore.Stream{Project: "prj_x", Kind: "project", ID: "prj_x"},
		}
		b := Append(nil, &r)
		want := 0
		if whole {
			want = len(b)
		}
		if n := Find(7, append(b, "more"...)); n != want {
			t.Errorf("%q: %d bytes of %d are found, want %d", body, n, len(b), want)
		}
	}
}
