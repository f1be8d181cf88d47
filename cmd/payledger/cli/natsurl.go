package cli

import (
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"payledger/notifier/bus"
)

// NATSURLFlags are the flags of every command that connects to such servers.
type NATSURLFlags struct {
	NATSURL         string `help:"Use these NATS servers with JetStream, separated by commas, instead of the embedded one. Not for nodes of a cluster, which have their own." placeholder:"URL" name:"nats-url" env:"PAYLEDGER_NATS_URL"`
	NATSCredentials string `help:"File that says who connects to --nats-url: credentials as nsc or \"nats auth\" write them, or USER:PASSWORD in one line. Read again for each connection." placeholder:"FILE" name:"nats-credentials" env:"PAYLEDGER_NATS_CREDENTIALS"`
	NATSCA          string `help:"Certificates of those who sign the certificates of --nats-url, as PEM. Default: those that the system trusts." placeholder:"FILE" name:"nats-ca" env:"PAYLEDGER_NATS_CA"`
	NATSClientCert  string `help:"Certificate that --nats-url asks its clients for, as PEM." placeholder:"FILE" name:"nats-client-cert" env:"PAYLEDGER_NATS_CLIENT_CERT"`
	NATSClientKey   string `help:"Private key of --nats-client-cert, as PEM without a passphrase." placeholder:"FILE" name:"nats-client-key" env:"PAYLEDGER_NATS_CLIENT_KEY"`
}

// External checks the flags. Errors are of ExitUsage.
func (s NATSURLFlags) External(log zerolog.Logger) (none bus.External, err error) {
	user, err := userOf(s.NATSCredentials)
	if err != nil {
		return none, err
	}
	transport, err := s.tls()
	if err != nil {
		return none, err
	}
	if s.NATSURL == "" {
		if len(user)+len(transport) > 0 {
			return none, Errorf(ExitUsage, "--nats-credentials, --nats-ca, --nats-client-cert and --nats-client-key are for --nats-url: give it too")
		}
		return none, nil
	}
	if named, shown := s.userInURL(); named && len(user) > 0 {
		return none, Errorf(ExitUsage, "--nats-credentials: --nats-url has a user too; leave one of them out")
	} else if shown {
		log.Warn().Msg("all users of this machine can read the user of --nats-url in the list of processes: put USER:PASSWORD into a file for --nats-credentials")
	}
	return bus.External{URL: s.NATSURL, Options: slices.Concat(user, transport)}, nil
}

// userInURL reports whether the URL has a user, and whether it is visible on the command line.
func (s NATSURLFlags) userInURL() (named, shown bool) {
	for one := range strings.SplitSeq(s.NATSURL, ",") {
		one = strings.TrimSpace(one)
		if !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		u, err := url.Parse(one) // Connect reports what is wrong with it
		named = named || err == nil && u.User != nil
	}
	return named, named && slices.ContainsFunc(os.Args, func(arg string) bool { return strings.Contains(arg, s.NATSURL) })
}

func (s NATSURLFlags) tls() (options []nats.Option, err error) {
	if (s.NATSClientCert == "") != (s.NATSClientKey == "") {
		return nil, Errorf(ExitUsage, "--nats-client-cert and --nats-client-key go together: give both")
	}
	add := func(flag string, o nats.Option) {
		if failed := o(&nats.Options{}); failed != nil && err == nil { // it has read the files
			err = Errorf(ExitUsage, "%s: %w", flag, failed)
		}
		options = append(options, o)
	}
	if s.NATSCA != "" {
		add("--nats-ca", nats.RootCAs(s.NATSCA))
	}
	if s.NATSClientCert != "" {
		add("--nats-client-cert", nats.ClientCert(s.NATSClientCert, s.NATSClientKey))
	}
	return options, err
}

// userOf is what a file says of a user; none if no file is named.
func userOf(file string) ([]nats.Option, error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, Errorf(ExitUsage, "--nats-credentials: %w", err)
	}
	if strings.Contains(string(b), "-----BEGIN NATS USER JWT-----") {
		return []nats.Option{nats.UserCredentials(file)}, nil
	}
	if user, _ := userIn(b); user == "" {
		return nil, Errorf(ExitUsage, "--nats-credentials %s: it has neither the credentials of a NATS user nor a line USER:PASSWORD", file)
	}
	return []nats.Option{nats.UserInfoHandler(func() (string, string) {
		b, _ := os.ReadFile(file) // without it the server refuses, and it is tried again
		return userIn(b)
	})}, nil
}

// userIn reads USER:PASSWORD.
func userIn(b []byte) (user, secret string) {
	line := strings.TrimSpace(string(b))
	user, secret, ok := strings.Cut(line, ":")
	if !ok || secret == "" || strings.ContainsAny(line, "\r\n") {
		return "", ""
	}
	return user, secret
}
