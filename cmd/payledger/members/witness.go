package members

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"

	"payledger/eventstore/translog"
)

// witnessScheme is the scheme of the URI in a node's certificate whose rest is the
// verifier key of the node as a witness.
const witnessScheme = "witness"

// witnessName is the name of a node as a witness. It is unique to the node and to the
// cluster, whose authority has the fingerprint.
func witnessName(fingerprint, node string) string {
	return "payledger/" + fingerprint[:16] + "/" + node
}

// Cosigner signs checkpoints as this node.
func (m *Member) Cosigner() (*translog.Cosigner, error) {
	c, err := translog.ParseCosigner(m.WitnessKey)
	if err != nil {
		return nil, fmt.Errorf("the node's key as a witness: %w", err)
	}
	return c, nil
}

// witnessURI is how a certificate names a witness.
func witnessURI(key string) *url.URL { return &url.URL{Scheme: witnessScheme, Opaque: key} }

// witnessOf is the witness that the URIs of a certificate name.
func witnessOf(uris []*url.URL) (*translog.Witness, error) {
	for _, u := range uris {
		if u.Scheme == witnessScheme {
			return translog.ParseWitness(u.Opaque)
		}
	}
	return nil, errors.New("the certificate names no witness")
}

// WitnessOf is a member as a witness, whom its certificate (PEM) names: the cluster's
// authority has signed which key is whose.
func (m *Member) WitnessOf(node, certificate string) (*translog.Witness, error) {
	leaf, err := fromPEM(certificate, pemCertificate, x509.ParseCertificate)
	if err != nil {
		return nil, err
	}
	conf, err := m.TLS()
	if err != nil {
		return nil, err
	}
	if err := m.verify(leaf, conf.RootCAs); err != nil {
		return nil, err
	}
	if leaf.Subject.CommonName != node {
		return nil, fmt.Errorf("the certificate is that of node %q, not of node %q", leaf.Subject.CommonName, node)
	}
	return witnessOf(leaf.URIs)
}
