package members

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"payledger/eventstore/translog"
)

// The types of PEM blocks.
const (
	pemCertificate = "CERTIFICATE"
	pemRequest     = "CERTIFICATE REQUEST"
	pemKey         = "PRIVATE KEY"
)

// certificate is what all certificates of a cluster have in common. The end is the
// one that RFC 5280 has for certificates that do not expire.
func certificate(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: []string{"payledger"}},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), BasicConstraintsValid: true,
	}, nil
}

// found makes the authority and the certificate of the first node.
func (m *Member) found() error {
	key, err := newKey()
	if err != nil {
		return err
	}
	c, err := certificate("authority of " + m.Cluster.String())
	if err != nil {
		return err
	}
	c.IsCA, c.MaxPathLenZero, c.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return err
	}
	m.Authority = toPEM(pemCertificate, der)
	if m.AuthorityKey, err = keyPEM(key); err != nil {
		return err
	}
	fingerprint, err := m.fingerprint()
	if err != nil {
		return err
	}
	request, err := m.request(fingerprint, m.Node)
	if err == nil {
		m.Certificate, err = m.sign(request, m.Node)
	}
	return err
}

// request makes the keys of a node and answers the request for its certificate. The
// fingerprint is that of the authority.
func (m *Member) request(fingerprint, node string) (string, error) {
	var err error
	if m.WitnessKey, err = translog.NewWitnessKey(rand.Reader, witnessName(fingerprint, node)); err != nil {
		return "", err
	}
	w, err := m.Cosigner()
	if err != nil {
		return "", err
	}
	key, err := newKey()
	if err != nil {
		return "", err
	}
	if m.Key, err = keyPEM(key); err != nil {
		return "", err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{URIs: []*url.URL{witnessURI(w.VerifierKey())}}, key)
	return toPEM(pemRequest, der), err
}

// sign makes the certificate of a member for the key of a request.
func (m *Member) sign(request, name string) (string, error) {
	r, err := fromPEM(request, pemRequest, x509.ParseCertificateRequest)
	if err != nil {
		return "", err
	}
	if err := r.CheckSignature(); err != nil {
		return "", err
	}
	w, err := witnessOf(r.URIs)
	if err != nil {
		return "", err
	}
	fingerprint, err := m.fingerprint()
	if err != nil {
		return "", err
	}
	if want := witnessName(fingerprint, name); w.Name() != want {
		return "", fmt.Errorf("the witness of node %s is %s, and %s was asked for", name, want, w.Name())
	}
	authority, err := tls.X509KeyPair([]byte(m.Authority), []byte(m.AuthorityKey))
	if err != nil {
		return "", fmt.Errorf("the authority's key: %w", err)
	}
	c, err := certificate(name)
	if err != nil {
		return "", err
	}
	c.DNSNames, c.URIs, c.KeyUsage = []string{m.domain()}, []*url.URL{witnessURI(w.Key())}, x509.KeyUsageDigitalSignature
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, c, authority.Leaf, r.PublicKey, authority.PrivateKey)
	return toPEM(pemCertificate, der), err
}

// checkCertificate makes sure that the node's certificate and key are its own and of
// its cluster.
func (m *Member) checkCertificate() error {
	conf, err := m.TLS()
	if err != nil {
		return fmt.Errorf("the certificate of the node and its key: %w", err)
	}
	leaf := conf.Certificates[0].Leaf
	if err := m.verify(leaf, conf.RootCAs); err != nil {
		return fmt.Errorf("the certificate of the node: %w", err)
	}
	if _, known := m.member(m.Node); !known || leaf.Subject.CommonName != m.Node {
		return fmt.Errorf("the certificate is that of node %q, and this is node %q", leaf.Subject.CommonName, m.Node)
	}
	cosigner, err := m.Cosigner()
	if err != nil {
		return err
	}
	if w, err := witnessOf(leaf.URIs); err != nil || w.Key() != cosigner.VerifierKey() {
		return errors.Join(errors.New("the certificate is not for the node's key as a witness"), err)
	}
	return nil
}

func (m *Member) verify(leaf *x509.Certificate, trusted *x509.CertPool) error {
	_, err := leaf.Verify(x509.VerifyOptions{Roots: trusted, DNSName: m.domain(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err
}

// fingerprint is that of the authority, by which a new node knows the cluster.
func (m *Member) fingerprint() (string, error) {
	c, err := fromPEM(m.Authority, pemCertificate, x509.ParseCertificate)
	if err != nil {
		return "", err
	}
	return fingerprintOf(c), nil
}

func fingerprintOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func keyPEM(key crypto.PrivateKey) (string, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return toPEM(pemKey, der), err
}

func toPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func fromPEM[T any](text, kind string, parse func([]byte) (T, error)) (T, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != kind {
		var none T
		return none, errors.New("no " + kind + " in PEM")
	}
	return parse(block.Bytes)
}
