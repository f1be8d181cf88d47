package members

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/httpserver"
	"payledger/eventstore"
	"payledger/notifier/bus/admission"
)

const (
	joinPath       = "/join"
	maxJoinRequest = 64 << 10
	maxJoinAnswer  = 4 << 20 // without the log
)

// joinRequest asks for everything a node needs.
type joinRequest struct {
	Secret  string `json:"secret"`
	Request string `json:"request"` // for a certificate, PEM
}

// joinAnswer is one line, the member first; the log follows it.
type joinAnswer struct {
	Member     jsontext.Value      `json:"member"` // a Member, without the new node's keys
	Keys       jsontext.Value      `json:"keys"`   // as datadir packs them
	Checkpoint string              `json:"checkpoint"`
	Position   eventstore.Position `json:"position"` // at which the log ends
	Bytes      int64               `json:"bytes"`    // of the log
}

// Copy copies a log as it is at one moment: begin gets the position of its last event
// and the bytes that will come, and answers where they go.
type Copy func(begin func(last eventstore.Position, bytes int64) (io.Writer, error)) error

// CopyStopped copies the log of a directory on which no server runs.
func CopyStopped(ctx context.Context, d datadir.Dir) Copy {
	return func(begin func(eventstore.Position, int64) (io.Writer, error)) error {
		store, err := d.OpenReadOnly()
		if err != nil {
			return err
		}
		return errors.Join(store.Backup(ctx, begin), store.Close())
	}
}

// Invite lets one node join at an address, empty for that of this node, until ctx ends.
// listen is the address of this machine that is taken for it, empty for the same one.
// tell hears the token once it is taken. The log is copied when the node joins; where the
// cluster runs it may grow meanwhile, and the node gets the rest when it is served.
func Invite(ctx context.Context, d datadir.Dir, node, address string, listen ListenAddress, source Copy, tell func(Token) error) (err error) {
	m, err := Load(d)
	switch {
	case err != nil:
		return err
	case m == nil:
		return cli.Errorf(cli.ExitDirectory, "%s is in no cluster: \"payledger cluster init\" makes one", d)
	case m.AuthorityKey == "":
		return cli.Errorf(cli.ExitUsage, "only node %s, which the cluster began with, can invite", m.Members[0].Name)
	}
	if _, ok := m.member(node); !ok || node == m.Node {
		return cli.Errorf(cli.ExitUsage, "%q is none of the nodes that can join: %s", node, names(m.Peers()))
	}
	i := &inviting{member: m, dir: d, source: source, node: node, joined: make(chan error, 1)}
	token := Token{Node: node, Address: cmp.Or(address, m.Own())}
	if token.Fingerprint, err = m.fingerprint(); err != nil {
		return err
	}
	token.secret, i.secret = newSecret()
	taken := cmp.Or(string(listen), token.Address)
	l, err := net.Listen("tcp", taken)
	if err != nil {
		return cli.Errorf(cli.ExitAddress, "the address %s cannot be taken: %w; while a node is served, give another one of this machine with --address, or with --listen if that one leads here from outside", taken, err)
	}
	conf, err := m.TLS()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	conf.ClientAuth = tls.NoClientCert // it gets its certificate here
	authority, _ := fromPEM(m.Authority, pemCertificate, func(der []byte) ([]byte, error) { return der, nil })
	conf.Certificates[0].Certificate = append(conf.Certificates[0].Certificate, authority)
	server := &http.Server{Handler: i, ConnContext: withConn, ReadHeaderTimeout: admission.Patience, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan error, 1)
	bounded := joiners{admission.New(l, "join", zerolog.Nop())}
	go func() { served <- server.Serve(tls.NewListener(bounded, conf)) }()
	defer func() {
		_ = server.Close()
		err = errors.Join(err, httpserver.IgnoreClosed(<-served))
	}()
	if err := tell(token); err != nil {
		return err
	}
	select {
	case err = <-i.joined:
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return errors.Join(err, server.Shutdown(ending)) // once the end of the log is sent
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return cli.Errorf(cli.ExitFailed, "node %s did not join in time: invite it again", node)
		}
		return ctx.Err()
	}
}

func names(all []Address) (text string) {
	for i, a := range all {
		if i > 0 {
			text += ", "
		}
		text += a.Name
	}
	return text
}

// inviting serves the one request of a new node.
type inviting struct {
	member *Member
	dir    datadir.Dir
	source Copy
	node   string
	secret secret
	used   atomic.Bool
	joined chan error
}

func (i *inviting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q joinRequest
	err := json.UnmarshalRead(http.MaxBytesReader(w, r.Body, maxJoinRequest), &q)
	switch {
	case r.URL.Path != joinPath || r.Method != http.MethodPost:
		http.Error(w, "only POST "+joinPath, http.StatusNotFound)
		return
	case err != nil || !i.secret.is(q.Secret):
		http.Error(w, "the token is not valid", http.StatusForbidden)
		return
	}
	authenticated(r)
	certificate, err := i.member.sign(q.Request, i.node)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if i.used.Swap(true) {
		http.Error(w, "the token was used already", http.StatusForbidden)
		return
	}
	i.joined <- i.send(w, certificate)
}

// send sends the new node's certificate, the keys, the newest checkpoint and the log.
func (i *inviting) send(w io.Writer, certificate string) error {
	member := *i.member
	member.Node, member.Certificate, member.Key, member.AuthorityKey, member.WitnessKey = i.node, certificate, "", "", ""
	described, err := json.Marshal(&member)
	if err != nil {
		return err
	}
	keys, err := i.dir.PackKeys()
	if err != nil {
		return err
	}
	checkpoint, err := os.ReadFile(i.dir.Checkpoint())
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "the newest checkpoint: %w", err)
	}
	out := bufio.NewWriterSize(w, 1<<20)
	err = i.source(func(last eventstore.Position, bytes int64) (io.Writer, error) {
		line, err := json.Marshal(joinAnswer{described, keys, string(checkpoint), last, bytes}, json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		_, err = out.Write(append(line, '\n'))
		return out, err
	})
	if err = errors.Join(err, out.Flush()); err != nil {
		return fmt.Errorf("sending the log to node %s: %w; invite it again", i.node, err)
	}
	return nil
}
