package cli

import (
	"crypto/tls"
	"net"
	"os"
	"time"

	"github.com/rs/zerolog"
)

// NATSListenFlags are the flags of serve and demo that open the embedded NATS server to others.
type NATSListenFlags struct {
	NATSListen    string `help:"Open the embedded NATS server to subscribers and connectors at this address; their passwords are in DIR/nats-credentials.json. See \"payledger nats consumer\" for more readers. Beyond loopback it takes a certificate." placeholder:"ADDR" name:"nats-listen" env:"PAYLEDGER_NATS_LISTEN"`
	NATSTLSCert   string `help:"TLS certificate of --nats-listen, followed by those that sign it, as PEM; read at the start." placeholder:"FILE" name:"nats-tls-cert" env:"PAYLEDGER_NATS_TLS_CERT"`
	NATSTLSKey    string `help:"Private key of --nats-tls-cert, as PEM without a passphrase." placeholder:"FILE" name:"nats-tls-key" env:"PAYLEDGER_NATS_TLS_KEY"`
	NATSPlaintext bool   `help:"Let --nats-listen take an address beyond loopback without a certificate: passwords and events cross the network in plain text." name:"nats-plaintext" env:"PAYLEDGER_NATS_PLAINTEXT"`
}

// TLS checks the flags and returns the TLS configuration that they ask for, nil
// for none. A certificate that is not valid at the time is logged: clients will
// refuse it, but payments do not depend on them. Errors are of ExitUsage.
func (f NATSListenFlags) TLS(now time.Time, log zerolog.Logger) (*tls.Config, error) {
	switch certificate := f.NATSTLSCert != "" || f.NATSTLSKey != ""; {
	case certificate && f.NATSListen == "":
		return nil, Errorf(ExitUsage, "--nats-tls-cert and --nats-tls-key are for --nats-listen: give its address too")
	case f.NATSListen == "":
		return nil, nil
	case certificate && (f.NATSTLSCert == "" || f.NATSTLSKey == ""):
		return nil, Errorf(ExitUsage, "--nats-tls-cert and --nats-tls-key go together: give both")
	case certificate:
		return f.load(now, log)
	case !f.NATSPlaintext && beyondLoopback(f.NATSListen):
		return nil, Errorf(ExitUsage, "--nats-listen %s can be reached from other machines: give a certificate with --nats-tls-cert and --nats-tls-key, "+
			"listen on 127.0.0.1, or, if the network itself is protected, allow it with --nats-plaintext", f.NATSListen)
	}
	return nil, nil
}

// beyondLoopback reports whether other machines may reach an address. Of one that
// cannot be resolved it does not: listening on it fails.
func beyondLoopback(addr string) bool {
	at, err := net.ResolveTCPAddr("tcp", addr)
	return err == nil && !at.IP.IsLoopback()
}

func (f NATSListenFlags) load(now time.Time, log zerolog.Logger) (*tls.Config, error) {
	chain, err := os.ReadFile(f.NATSTLSCert)
	if err != nil {
		return nil, Errorf(ExitUsage, "--nats-tls-cert: %w", err)
	}
	key, err := os.ReadFile(f.NATSTLSKey)
	if err != nil {
		return nil, Errorf(ExitUsage, "--nats-tls-key: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, Errorf(ExitUsage, "--nats-tls-cert %s with --nats-tls-key %s: %w", f.NATSTLSCert, f.NATSTLSKey, err)
	}
	switch leaf := pair.Leaf; {
	case now.After(leaf.NotAfter):
		log.Warn().Time("not_after", leaf.NotAfter).Str("file", f.NATSTLSCert).
			Msg("the certificate of --nats-listen has expired: NATS clients refuse it; replace the file and start again")
	case now.Before(leaf.NotBefore):
		log.Warn().Time("not_before", leaf.NotBefore).Str("file", f.NATSTLSCert).
			Msg("the certificate of --nats-listen is not valid yet: NATS clients refuse it until then")
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
