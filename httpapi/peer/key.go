package peer

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"
)

// KeySize is that of a cluster's key, in bytes.
const KeySize = 32

// domainName is what all certificates of a cluster are for; a node's is for NODE.domainName
// besides.
const domainName = "payledger.internal"

// TLS is for both ends of the connections between nodes: each shows a certificate that
// only who has the cluster's key can make, and no other authority is trusted.
// Certificates follow from the key, so that no node needs a file of its own. They do not
// expire: a clock that is wrong must not stop a cluster, and a thief of the key has the
// master key too.
func TLS(key []byte, node string) (*tls.Config, error) {
	authorityKey, err := derive(key, "authority")
	if err != nil {
		return nil, err
	}
	nodeKey, err := derive(key, "node "+node)
	if err != nil {
		return nil, err
	}
	ca := certificate("authority")
	ca.IsCA, ca.MaxPathLenZero, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	authority, err := sign(ca, ca, authorityKey, authorityKey)
	if err != nil {
		return nil, err
	}
	c := certificate(node)
	c.DNSNames, c.KeyUsage = []string{domainName, node + "." + domainName}, x509.KeyUsageDigitalSignature
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	leaf, err := sign(c, authority, nodeKey, authorityKey)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(authority)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: nodeKey, Leaf: leaf}},
		RootCAs:      trusted, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert,
		ServerName: domainName, MinVersion: tls.VersionTLS13,
	}, nil
}

// derive makes the key of a part of the cluster.
func derive(key []byte, part string) (ed25519.PrivateKey, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("the cluster's key has %d bytes, want %d", len(key), KeySize)
	}
	seed, err := hkdf.Key(sha256.New, key, nil, "payledger cluster, "+part, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// certificate is what all certificates have in common. The end is the one that RFC 5280 has
// for certificates that do not expire.
func certificate(name string) *x509.Certificate {
	sum := sha256.Sum256([]byte(name))
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(sum[:15]), Subject: pkix.Name{CommonName: name, Organization: []string{"payledger"}},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), BasicConstraintsValid: true,
	}
}

func sign(c, by *x509.Certificate, key, byKey ed25519.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(nil, c, by, key.Public(), byKey) // Ed25519 needs no chance
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
