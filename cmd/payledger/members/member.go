package members

import (
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
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/exit"
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
// cluster's.
func Init(d datadir.Dir, all []Address) (*Member, error) {
	if err := check(all); err != nil {
		return nil, exit.Wrap(exit.Usage, err)
	}
	store, err := d.Open(bolt.Options{}) // nobody else has the directory
	if err != nil {
		return nil, err
	}
	m := &Member{
		Format: format, Cluster: domain.NewIDs(time.Now, rand.Reader, domain.ID{}).Next(), Ledger: store.LogID(), Node: all[0].Name, Members: all,
	}
	if _, err := d.LogSigner(m.Ledger); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if err := m.found(); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return m, errors.Join(m.write(d), store.Close())
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

func (m *Member) write(d datadir.Dir) error {
	b, err := json.Marshal(m, json.Deterministic(true), jsontext.WithIndent("  "))
	if err == nil {
		err = datadir.WriteFileSynced(d.Cluster(), append(b, '\n'))
	}
	if err != nil {
		return exit.With(exit.Directory, "writing %s: %w", d.Cluster(), err)
	}
	return nil
}

// Load reads the directory's cluster.json; nil: it is in no cluster.
func Load(d datadir.Dir) (*Member, error) {
	if !d.Clustered() {
		return nil, nil
	}
	b, err := os.ReadFile(d.Cluster())
	if err != nil {
		return nil, exit.With(exit.Directory, "%w", err)
	}
	m := &Member{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, exit.With(exit.Directory, "%s cannot be read: %w; put it back from a copy, or have the node join again", d.Cluster(), err)
	}
	if m.Format != format {
		return nil, exit.With(exit.Directory, "%s is %q, this program knows %q", d.Cluster(), m.Format, format)
	}
	if err := errors.Join(check(m.Members), m.checkCertificate()); err != nil {
		return nil, exit.With(exit.Directory, "%s cannot be used: %w; put it back from a copy, or have the node join again", d.Cluster(), err)
	}
	return m, nil
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

// listen takes the node's address, which only one process can.
func (m *Member) listen() (net.Listener, error) {
	l, err := net.Listen("tcp", m.Own())
	if err != nil {
		return nil, exit.With(exit.Address, "the address %s of node %s cannot be taken: %w; does another process serve this node, or a copy of its directory?", m.Own(), m.Node, err)
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
