package cli

import (
	"bytes"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"payledger/notifier/bustest"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	now := time.Now()
	cert, key := bustest.Certificate(t, now.Add(-time.Hour))
	expired, expiredKey := bustest.Certificate(t, now.Add(-48*time.Hour))
	early, earlyKey := bustest.Certificate(t, now.Add(time.Hour))
	const local, open = "127.0.0.1:4222", "0.0.0.0:4222"
	for name, c := range map[string]struct {
		flags  NATSListenFlags
		secure bool
		warns  string
		err    string // "": none
	}{
		"nothing":                    {},
		"loopback":                   {flags: NATSListenFlags{NATSListen: local}},
		"loopback by name":           {flags: NATSListenFlags{NATSListen: "localhost:0"}},
		"loopback IPv6":              {flags: NATSListenFlags{NATSListen: "[::1]:0"}},
		"loopback with TLS":          {flags: NATSListenFlags{NATSListen: local, NATSTLSCert: cert, NATSTLSKey: key}, secure: true},
		"everywhere with TLS":        {flags: NATSListenFlags{NATSListen: ":4222", NATSTLSCert: cert, NATSTLSKey: key}, secure: true},
		"everywhere":                 {flags: NATSListenFlags{NATSListen: open}, err: "--nats-plaintext"},
		"everywhere, IPv6":           {flags: NATSListenFlags{NATSListen: "[::]:4222"}, err: "--nats-tls-cert"},
		"a port alone":               {flags: NATSListenFlags{NATSListen: ":4222"}, err: "--nats-tls-cert"},
		"another address":            {flags: NATSListenFlags{NATSListen: "192.0.2.7:4222"}, err: "other machines"},
		"everywhere, allowed":        {flags: NATSListenFlags{NATSListen: open, NATSPlaintext: true}},
		"nonsense is for listening":  {flags: NATSListenFlags{NATSListen: "nonsense"}},
		"a certificate alone":        {flags: NATSListenFlags{NATSListen: local, NATSTLSCert: cert}, err: "give both"},
		"a key alone":                {flags: NATSListenFlags{NATSListen: local, NATSTLSKey: key}, err: "give both"},
		"without an address":         {flags: NATSListenFlags{NATSTLSCert: cert, NATSTLSKey: key}, err: "--nats-listen"},
		"no such certificate":        {flags: NATSListenFlags{NATSListen: local, NATSTLSCert: "missing.pem", NATSTLSKey: key}, err: "--nats-tls-cert: open missing.pem"},
		"no such key":                {flags: NATSListenFlags{NATSListen: local, NATSTLSCert: cert, NATSTLSKey: "missing.pem"}, err: "--nats-tls-key: open missing.pem"},
		"the key of another":         {flags: NATSListenFlags{NATSListen: local, NATSTLSCert: cert, NATSTLSKey: expiredKey}, err: "private key does not match"},
		"the files in wrong order":   {flags: NATSListenFlags{NATSListen: local, NATSTLSCert: key, NATSTLSKey: cert}, err: "--nats-tls-cert " + key},
		"expired":                    {flags: NATSListenFlags{NATSListen: local, NATSTLSCert: expired, NATSTLSKey: expiredKey}, secure: true, warns: "has expired"},
		"not valid yet":              {flags: NATSListenFlags{NATSListen: local, NATSTLSCert: early, NATSTLSKey: earlyKey}, secure: true, warns: "not valid yet"},
		"plain text and certificate": {flags: NATSListenFlags{NATSListen: open, NATSTLSCert: cert, NATSTLSKey: key, NATSPlaintext: true}, secure: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			got, err := c.flags.TLS(now, zerolog.New(&log))
			if c.err != "" {
				var wrong *ExitError
				if !errors.As(err, &wrong) || wrong.Code != ExitUsage || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %q", err, c.err)
				}
				return
			}
			if err != nil || (got != nil) != c.secure {
				t.Errorf("%v, %v", got, err)
			}
			if got != nil && got.MinVersion != tls.VersionTLS12 {
				t.Errorf("from TLS version %x on", got.MinVersion)
			}
			if said := log.String(); (said != "") != (c.warns != "") || !strings.Contains(said, c.warns) {
				t.Errorf("log: %q, want %q", said, c.warns)
			}
		})
	}
}
