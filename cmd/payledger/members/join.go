package members

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
)

// Join makes a new directory the node that the token is for.
func Join(ctx context.Context, d datadir.Dir, token string, stderr io.Writer) (m *Member, err error) {
	t, err := parseToken(token)
	if err != nil {
		return nil, cli.WithCode(cli.ExitUsage, err)
	}
	if err := d.Make(append(datadir.PackedFiles(), "checkpoint", "cluster.json")...); err != nil {
		return nil, err
	}
	own := &Member{}
	request, err := own.request(t.Fingerprint, t.Node)
	if err != nil {
		return nil, err
	}
	body, err := t.ask(ctx, joinRequest{t.secret, request})
	if err != nil {
		return nil, fmt.Errorf("asking the node at %s: %w", t.Address, err)
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	in := bufio.NewReaderSize(body, maxJoinAnswer)
	line, err := in.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("the answer of the node at %s broke off: %w", t.Address, err)
	}
	var a joinAnswer
	answerErr := json.Unmarshal(line, &a) // of another format, what follows the member may be anything too
	m, err = parse(a.Member)
	if errors.Is(err, errFormat) {
		return nil, fmt.Errorf("the answer of the node at %s %w: install the same payledger on both machines, invite this node again, and join with the new token", t.Address, err)
	}
	if err = errors.Join(answerErr, err); err != nil {
		return nil, fmt.Errorf("the answer of the node at %s makes no sense: %w", t.Address, err)
	}
	m.Key, m.WitnessKey = own.Key, own.WitnessKey
	if err := errors.Join(check(m.Members), m.checkCertificate()); err != nil || m.Node != t.Node {
		return nil, fmt.Errorf("the answer of the node at %s is not for node %s: %w", t.Address, t.Node, errors.Join(err))
	}
	return m, place(ctx, d, m, a, in, stderr)
}

// ask sends the request to the node that the fingerprint is of.
func (t Token) ask(ctx context.Context, q joinRequest) (io.ReadCloser, error) {
	b, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS13,
			InsecureSkipVerify: true, //nolint:gosec // VerifyConnection checks it: the one trusted authority comes with the connection
			VerifyConnection:   t.verify,
		},
	}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+t.Address+joinPath, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
		return nil, cli.Errorf(cli.ExitRefused, "%s", bytes.TrimSpace(why))
	}
	return resp.Body, nil
}

// verify makes sure that the other end has a certificate of the authority whose
// fingerprint the token has.
func (t Token) verify(c tls.ConnectionState) error {
	i := slices.IndexFunc(c.PeerCertificates, func(c *x509.Certificate) bool { return fingerprintOf(c) == t.Fingerprint })
	if i < 0 {
		return errors.New("another program answers there: its certificate is not the one that the token names")
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(c.PeerCertificates[i])
	_, err := c.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: trusted, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}

// place writes what came. The log comes last: a directory without it is no data
// directory yet, and joining goes on in it.
func place(ctx context.Context, d datadir.Dir, m *Member, a joinAnswer, in io.Reader, stderr io.Writer) (err error) {
	pack, err := datadir.ParseKeys(a.Keys)
	if err != nil {
		return err
	}
	for name, content := range pack.Files {
		if err := datadir.WriteFileSynced(d.File(name), []byte(content)); err != nil {
			return err
		}
	}
	if err := datadir.WriteFileSynced(d.Checkpoint(), []byte(a.Checkpoint)); err != nil {
		return err
	}
	if err := m.write(d.Cluster()); err != nil {
		return err
	}
	work, err := datadir.NewScratch(string(d), d.Files()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.Remove()) }()
	tmp, err := datadir.CreatePrivate(work.File("ledger.db"))
	if err != nil {
		return err
	}
	n, err := io.Copy(cli.CopyProgress(tmp, stderr, a.Position, a.Bytes), in)
	if err == nil && n != a.Bytes {
		err = fmt.Errorf("%d bytes came of %d", n, a.Bytes)
	}
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("the log broke off on its way, join again with a new token: %w", err)
	}
	p, err := datadir.VerifyFile(ctx, tmp.Name(), cli.Progress(stderr, "Checking the copy"), nil)
	if err == nil && p.Log != m.Ledger {
		err = fmt.Errorf("it is log %s, and the cluster keeps log %s", p.Log, m.Ledger)
	}
	if err != nil {
		return fmt.Errorf("the log that came is not what it should be: %w", err)
	}
	return datadir.MoveInto(tmp.Name(), d.Ledger(), false)
}
