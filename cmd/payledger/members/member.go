package members

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore/bolt"
)

// size is how many members a cluster has.
const size = 3

// format is that of cluster.json. Its number rises when an older program could not
// use the file.
const format = "payledger cluster 1"

// Address says where a member can be reached by the others.
type Address struct {
	Name    string `json:"name"`
	Address string `json:"address"` // HOST:PORT
}

// Member is a node of a cluster, as its cluster.json describes it.
type Member struct {
	Format  string    `json:"format"`
	Cluster domain.ID `json:"cluster"` // its id, and LOG's
	Ledger  domain.ID `json:"ledger"`  // the id of the event log
	Node    string    `json:"node"`    // the name of this one
	Members []Address `json:"members"` // the first one founds LOG

	Certificate  string `json:"certificate"` // PEM, as all of these
	Key          string `json:"key"`
	Authority    string `json:"authority"`
	AuthorityKey string `json:"authority_key,omitzero"` // the first member alone has it

	Listen ListenAddress `json:"-"` // what the node listens on, if not its address

	WitnessKey string `json:"witness_key"` // private, with which the node vouches for checkpoints; its certificate has the public one
}

// namePattern keeps names fit for subjects of NATS and for the 16 bytes of a writer in
// LOG.
var namePattern = regexp.MustCompile(`^[a-z0-9-]{1,16}$`)

// ParseAddress reads NAME=HOST:PORT.
func ParseAddress(s string) (Address, error) {
	name, address, _ := strings.Cut(s, "=")
	host, port, err := net.SplitHostPort(address)
	n, portErr := strconv.ParseUint(port, 10, 16)
	switch {
	case !namePattern.MatchString(name):
		return Address{}, fmt.Errorf("%q: want NAME=HOST:PORT, where the name has up to 16 small letters, digits and hyphens", s)
	case err != nil, portErr != nil, n == 0, host == "":
		return Address{}, fmt.Errorf("%q: want NAME=HOST:PORT, an address at which the other nodes reach this one", s)
	}
	return Address{name, address}, nil
}

// Init makes a directory the first node of a new cluster. Its log becomes the
// cluster's. No server may run on the directory.
func Init(ctx context.Context, d datadir.Dir, all []Address) (m *Member, err error) {
	if err := check(all); err != nil {
		return nil, cli.WithCode(cli.ExitUsage, err)
	}
	m = &Member{Format: format, Cluster: domain.NewIDs(time.Now, rand.Reader, domain.ID{}).Next(), Node: all[0].Name, Members: all}
	served, err := d.Reach(ctx, func() error {
		store, err := d.Open(bolt.Options{}) // nobody else has the directory
		if err != nil {
			return err
		}
		m.Ledger = store.LogID()
		return errors.Join(m.begin(d), store.Close())
	})
	switch {
	case served && d.Clustered():
		return nil, cli.Errorf(cli.ExitDirectory, "%s is a node of a cluster already", d)
	case served:
		return nil, cli.Errorf(cli.ExitInUse, "a server runs on %s: stop it, give the command again, let the other two nodes join, then start all three", d)
	}
	return m, err
}

// begin makes the authority and the first node, and writes its file.
func (m *Member) begin(d datadir.Dir) error {
	if _, err := d.LogSigner(m.Ledger); err != nil {
		return err
	}
	if err := m.found(); err != nil {
		return err
	}
	return m.write(d.Cluster())
}

func check(all []Address) error {
	if len(all) != size {
		return fmt.Errorf("%d nodes: a cluster has %d", len(all), size)
	}
	for i, a := range all {
		if slices.ContainsFunc(all[:i], func(b Address) bool { return a.Name == b.Name || a.Address == b.Address }) {
			return fmt.Errorf("%s=%s: each node needs a name and an address of its own", a.Name, a.Address)
		}
	}
	return nil
}

func (m *Member) write(file string) error {
	b, err := json.Marshal(m, json.Deterministic(true), jsontext.WithIndent("  "))
	if err == nil {
		err = datadir.WriteFileSynced(file, append(b, '\n'))
	}
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "writing %s: %w", file, err)
	}
	return nil
}

// Load reads the directory's cluster.json; nil: it is in no cluster.
func Load(d datadir.Dir) (*Member, error) {
	file := d.Cluster()
	if !datadir.Exists(file) {
		return nil, nil // also where the directory is none: the next error says that better
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	m, err := parse(b)
	switch {
	case errors.Is(err, errFormat):
		return nil, cli.Errorf(cli.ExitDirectory, "%s %w: was it written by a newer payledger? Start that one", file, err)
	case err != nil:
		return nil, cli.Errorf(cli.ExitDirectory, "%s cannot be read: %w; put it back from a copy, or have the node join again", file, err)
	}
	if err := errors.Join(check(m.Members), m.checkCertificate()); err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "%s cannot be used: %w; put it back from a copy, or have the node join again", file, err)
	}
	return m, nil
}

// errFormat: the description of a node is that of another program.
var errFormat = errors.New("is of the format")

// parse reads the description of a node. Its format is read alone at first: in another
// one the rest may be anything.
func parse(b []byte) (*Member, error) {
	var of struct {
		Format string `json:"format"`
	}
	if err := json.Unmarshal(b, &of); err != nil {
		return nil, err
	}
	if of.Format != format {
		return nil, fmt.Errorf("%w %q, and this program knows %q", errFormat, of.Format, format)
	}
	m := new(Member)
	return m, json.Unmarshal(b, m)
}

// Own is the address of this node.
func (m *Member) Own() string {
	own, _ := m.member(m.Node)
	return own.Address
}

// Peers are the other members.
func (m *Member) Peers() []Address {
	return slices.DeleteFunc(slices.Clone(m.Members), func(a Address) bool { return a.Name == m.Node })
}

func (m *Member) member(name string) (Address, bool) {
	i := slices.IndexFunc(m.Members, func(a Address) bool { return a.Name == name })
	if i < 0 {
		return Address{}, false
	}
	return m.Members[i], true
}

// ListenAddress is an address of this machine: HOST:PORT, or :PORT for all of its interfaces.
type ListenAddress string

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *ListenAddress) UnmarshalText(text []byte) error {
	_, port, err := net.SplitHostPort(string(text))
	if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || n == 0 {
		return fmt.Errorf("%q: want HOST:PORT or :PORT, with a port from 1 to 65535", text)
	}
	*a = ListenAddress(text)
	return nil
}

// listenAddress is the address that the node takes.
func (m *Member) listenAddress() string { return cmp.Or(string(m.Listen), m.Own()) }

// listen takes the node's address, which only one process can.
func (m *Member) listen() (net.Listener, error) {
	l, err := net.Listen("tcp", m.listenAddress())
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return nil, cli.Errorf(cli.ExitAddress, "node %s: %s is no address of this machine: name one at which it gets what is sent there with --node-listen", m.Node, m.listenAddress())
	}
	if err != nil {
		return nil, cli.Errorf(cli.ExitAddress, "the address %s of node %s cannot be taken: %w; does another process serve this node, or a copy of its directory?", m.listenAddress(), m.Node, err)
	}
	return l, nil
}

// domain is the name for which all certificates of the cluster are made.
func (m *Member) domain() string { return m.Cluster.String() + ".payledger" }

// TLS is the configuration of connections to and from the other members.
func (m *Member) TLS() (*tls.Config, error) {
	own, err := tls.X509KeyPair([]byte(m.Certificate), []byte(m.Key))
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM([]byte(m.Authority)) {
		return nil, errors.New("the certificate of the authority makes no sense")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, ServerName: m.domain(),
		RootCAs: trusted, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}
