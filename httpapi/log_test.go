package httpapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/translog"
)

// sign returns a checkpoint of the present tree, signed by a key of this server.
func (s *server) sign(ctx context.Context) ([]byte, error) {
	s.keyOnce.Do(func() {
		s.signerKey, s.verifierKey, s.keyErr = note.GenerateKey(rand.Reader, translog.Origin(domain.ID{1}))
	})
	if s.keyErr != nil {
		return nil, s.keyErr
	}
	signer, err := translog.ParseSigner(s.signerKey)
	if err != nil {
		return nil, err
	}
	size, root, err := s.cfg.Views.Tree(ctx)
	if err != nil {
		return nil, err
	}
	return signer.Sign(translog.Checkpoint{Origin: signer.Origin(), Size: size, Root: root})
}

// auditor is a merchant's key that reads the log through the API alone.
type auditor struct{ shop }

// checkpoint reads the newest checkpoint without any code of ours.
func (a auditor) checkpoint() tlog.Tree {
	a.s.t.Helper()
	r := a.get("/v1/log/checkpoint").want(200, "")
	if got := r.Header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
		a.s.t.Errorf("content type %q", got)
	}
	v, err := note.NewVerifier(a.s.verifierKey)
	if err != nil {
		a.s.t.Fatal(err)
	}
	n, err := note.Open(r.Body, note.VerifierList(v))
	if err != nil {
		a.s.t.Fatal(err)
	}
	var origin, hash string
	var size int64
	if _, err := fmt.Sscanf(n.Text, "%s\n%d\n%s\n", &origin, &size, &hash); err != nil {
		a.s.t.Fatalf("%v in %q", err, n.Text)
	}
	root, err := tlog.ParseHash(hash)
	if err != nil || origin != v.Name() {
		a.s.t.Fatalf("%v in %q", err, n.Text)
	}
	return tlog.Tree{N: size, Hash: root}
}

func (s *server) bodies() (all [][]byte) {
	s.t.Helper()
	for r, err := range s.store.Scan(s.t.Context(), 0, eventstore.Filter{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, r.Body)
	}
	return all
}

func TestProofs(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := auditor{s.merchant("", "payments:write", "audit")}
	older := a.checkpoint()
	for range 9 {
		a.pay(`{"amount":1}`).want(201, "")
	}
	tree := a.checkpoint()
	bodies := s.bodies()
	if tree.N != int64(len(bodies)) || older.N >= tree.N {
		t.Fatalf("checkpoints of %d and %d, the log holds %d", older.N, tree.N, len(bodies))
	}
	for i, body := range bodies {
		var in struct {
			Position, Size int64
			Hashes         tlog.RecordProof
		}
		a.get(fmt.Sprintf("/v1/log/proof/inclusion?position=%d&size=%d", i+1, tree.N)).want(200, "").decode(&in)
		if err := tlog.CheckRecord(in.Hashes, tree.N, tree.Hash, int64(i), tlog.RecordHash(body)); err != nil {
			t.Errorf("position %d: %v", i+1, err)
		}
		if tlog.CheckRecord(in.Hashes, tree.N, tree.Hash, int64(i), tlog.RecordHash(append(body, ' '))) == nil {
			t.Errorf("position %d: the proof passes for another event", i+1)
		}
	}
	var grown struct {
		From, To int64
		Hashes   tlog.TreeProof
	}
	a.get(fmt.Sprintf("/v1/log/proof/consistency?from=%d&to=%d", older.N, tree.N)).want(200, "").decode(&grown)
	if err := tlog.CheckTree(grown.Hashes, tree.N, tree.Hash, older.N, older.Hash); err != nil || grown.From != older.N || grown.To != tree.N {
		t.Errorf("consistency %+v: %v", grown, err)
	}
	head := a.send("HEAD", "/v1/log/checkpoint", nil).want(200, "")
	if len(head.Body) > 0 || head.Header.Get("Content-Length") == "" {
		t.Errorf("HEAD: %d bytes, headers %v", len(head.Body), head.Header)
	}
}

func TestProofParameters(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("", "audit", "payments:write")
	size := len(s.bodies())
	for query, parameter := range map[string]string{
		"": "position", "?position=1": "size", "?size=1": "position", "?position=0&size=1": "position", "?position=1&size=0": "size",
		"?position=-1&size=1": "position", "?position=01&size=1": "position", "?position=%2B1&size=1": "position", "?position=1&size=x": "size",
		"?position=3&size=2": "position", "?position=1&size=1&x=1": "x", "?position=1&position=1&size=1": "position",
		"?position=1&size=9223372036854775808": "size", "?position=1&size=9223372036854775807": "size",
		fmt.Sprintf("?position=1&size=%d", size+1): "size",
	} {
		for path, names := range map[string][2]string{
			"/v1/log/proof/inclusion": {"position", "size"}, "/v1/log/proof/consistency": {"from", "to"},
		} {
			rename := strings.NewReplacer("position", names[0], "size", names[1])
			r := m.get(path+rename.Replace(query)).want(400, domain.InvalidParameter)
			if got := r.problem().Parameter; got != rename.Replace(parameter) {
				t.Errorf("%s%s: parameter %q, want %q", path, rename.Replace(query), got, rename.Replace(parameter))
			}
		}
	}
	m.get("/v1/log/proof/inclusion?position=1&size=1").want(200, "")
}

// tileClient reads tiles over HTTP as a program does that knows only the C2SP
// layout.
type tileClient struct {
	auditor
	read map[string]bool
}

func (tileClient) Height() int { return 8 }

func (c tileClient) ReadTiles(tiles []tlog.Tile) (all [][]byte, err error) {
	for _, tile := range tiles {
		path := "/v1/log/tile/" + strings.TrimPrefix(tile.Path(), "tile/8/")
		r := c.get(path)
		if r.Code != 200 {
			return nil, fmt.Errorf("%s: %d", path, r.Code)
		}
		if got := r.Header.Get("Content-Type"); got != "application/octet-stream" {
			c.s.t.Errorf("%s: content type %q", path, got)
		}
		if !strings.Contains(r.Header.Get("Cache-Control"), "immutable") {
			c.s.t.Errorf("%s: Cache-Control %q", path, r.Header.Get("Cache-Control"))
		}
		c.read[strings.TrimPrefix(path, "/v1/log/tile/")] = true
		all = append(all, r.Body)
	}
	return all, nil
}

func (tileClient) SaveTiles([]tlog.Tile, [][]byte) {}

// TestTiles rebuilds every leaf, and proofs, from tiles that are checked against the
// checkpoint.
func TestTiles(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := auditor{s.merchant("", "audit")}
	for i := range 600 { // a full tile, a partial one, and one above them
		id, event := s.cfg.IDs.Pair()
		stream := eventstore.PaymentStream(a.project, id)
		_, err := eventstore.Execute(t.Context(), s.cfg.Ledger, stream, domain.Payment{Project: a.project, ID: id}, domain.PaymentCommand(domain.CreatePayment{
			At: domain.IDTime(event), Amount: domain.Amount(i + 1), Currency: domain.DefaultCurrency, Settings: domain.DefaultSettings(),
			Link: domain.Link{Base: publicURL, KeyVersion: 1, Render: 1},
		}), eventstore.Order{EventID: event, New: true})
		if err != nil {
			t.Fatal(err)
		}
	}
	tree := a.checkpoint()
	client := tileClient{a, map[string]bool{}}
	reader := tlog.TileHashReader(tree, client)
	bodies := s.bodies()
	var indexes []int64
	for i := range bodies {
		indexes = append(indexes, tlog.StoredHashIndex(0, int64(i)))
	}
	leaves, err := reader.ReadHashes(indexes)
	if err != nil {
		t.Fatal(err)
	}
	for i, leaf := range leaves {
		if leaf != tlog.RecordHash(bodies[i]) {
			t.Fatalf("leaf %d differs", i)
		}
	}
	proof, err := tlog.ProveRecord(tree.N, 300, reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := tlog.CheckRecord(proof, tree.N, tree.Hash, 300, tlog.RecordHash(bodies[300])); err != nil {
		t.Errorf("a proof made from tiles: %v", err)
	}
	want := []string{"0/000", "0/001", fmt.Sprintf("0/002.p/%d", tree.N-512), "1/000.p/2"}
	for _, path := range want {
		if !client.read[path] {
			t.Errorf("tile %s was not needed: %v", path, client.read)
		}
	}
	forged := tlog.TileHashReader(tlog.Tree{N: tree.N, Hash: leaves[0]}, client)
	if _, err := forged.ReadHashes(indexes[:1]); err == nil {
		t.Error("the tiles pass for another root")
	}

	if a.get("/v1/log/tile/0/001").Body == nil || !bytes.Equal(a.get("/v1/log/tile/0/001.p/7").Body, a.get("/v1/log/tile/0/001").Body[:7*32]) {
		t.Error("a partial tile is not the beginning of the full one")
	}
	for _, path := range []string{
		"0/002", "0/003.p/1", fmt.Sprintf("0/002.p/%d", tree.N-511), "1/000", "1/000.p/3", "1/001.p/1", "2/000.p/1", "7/000.p/1",
		"0/0", "0/000.p/0", "0/000.p/256", "0/000.p/", "0/x000/001", "8/000", "entries/000", "data/000", "-1/000", "0", "0/", "0/000/", "/0/000",
		"0%2F000", "0/%30%30%30", "0/x999/x999/x999/x999/x999/x999/x999/999",
	} {
		a.get("/v1/log/tile/"+path).want(404, domain.PathNotFound)
	}
	head := a.send("HEAD", "/v1/log/tile/0/000", nil).want(200, "")
	if len(head.Body) > 0 || head.Header.Get("Content-Length") != "8192" {
		t.Errorf("HEAD: %d bytes, %v", len(head.Body), head.Header)
	}
}

func TestLogNeedsTheAuditScope(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("", "read", "payments:write")
	for _, path := range []string{"/v1/log/checkpoint", "/v1/log/proof/inclusion?position=1&size=1", "/v1/log/proof/consistency?from=1&to=1", "/v1/log/tile/0/000.p/1"} {
		if got := m.get(path).want(403, domain.ScopeMissing).problem().RequiredScope; got != projects.Audit {
			t.Errorf("%s: required scope %q", path, got)
		}
		s.send("GET", path, nil).want(401, domain.Unauthorized)
	}
	m.post("/v1/log/checkpoint", `{}`).want(405, domain.MethodNotAllowed)
}

// TestCheckpointThatCannotBeSigned: the codes are those of other failures of the
// store.
func TestCheckpointThatCannotBeSigned(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		code   domain.Code
	}{
		{eventstore.ErrFull, 503, domain.Unavailable},
		{eventstore.ErrClosed, 503, domain.Unavailable},
		{errors.New("no"), 500, domain.InternalError},
	} {
		s := start(t, func(cfg *settings) {
			cfg.Checkpoint = func(context.Context) ([]byte, error) { return nil, c.err }
		})
		s.merchant("").get("/v1/log/checkpoint").want(c.status, c.code)
		s.adminDo("GET", "/admin/log/checkpoint", "").want(c.status, c.code)
	}
}

// Nothing is recorded by a request that reads, so one that ran out of time says nothing of that.
func TestReadThatRunsOutOfTime(t *testing.T) {
	t.Parallel()
	s := start(t, func(cfg *settings) {
		cfg.Checkpoint = func(context.Context) ([]byte, error) { return nil, context.DeadlineExceeded }
		cfg.Sandbox = brokenProvider{err: context.DeadlineExceeded}
	})
	m := s.merchant("")
	id := m.pay(`{"amount":1}`).object().ID
	m.route(id)
	for _, c := range []struct {
		answer   *answer
		recorded bool
	}{
		{m.get("/v1/log/checkpoint"), false},
		{m.post("/v1/sandbox/payments/"+id, `{"outcome":"paid"}`), true},
	} {
		p := c.answer.want(503, domain.Unavailable).problem()
		if strings.Contains(p.Detail, "Idempotency-Key") != c.recorded || strings.Contains(p.Detail, "ask for less") == c.recorded {
			t.Errorf("%s", p.Detail)
		}
	}
}

// TestOperatorsCheckpointTakesItsTime: where a long log is compared first, commands wait for as long
// as it takes, and merchants no longer than for other answers.
func TestOperatorsCheckpointTakesItsTime(t *testing.T) {
	t.Parallel()
	var bounded bool
	s := start(t, func(cfg *settings) {
		cfg.Checkpoint = func(ctx context.Context) ([]byte, error) {
			_, bounded = ctx.Deadline()
			return []byte("signed"), nil
		}
	})
	s.adminDo("GET", "/admin/log/checkpoint", "").want(200, "")
	if bounded {
		t.Error("the operator's checkpoint has a deadline")
	}
	s.merchant("").get("/v1/log/checkpoint").want(200, "")
	if !bounded {
		t.Error("the merchant's checkpoint has none")
	}
}
