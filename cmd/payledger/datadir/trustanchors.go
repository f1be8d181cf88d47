package datadir

import (
	"errors"
	"os"
	"strings"

	"payledger/cmd/payledger/cli"
	"payledger/eventstore/audit"
	"payledger/eventstore/translog"
)

// TrustAnchors are what --checkpoint, --verifier-key and --witness-key name.
type TrustAnchors = audit.Against

// ReadTrustAnchors reads the files of checkpoints, which the command line names as from, and the keys.
func ReadTrustAnchors(from string, checkpoints, keys []string) (p TrustAnchors, err error) {
	for _, name := range checkpoints {
		b, err := os.ReadFile(name)
		if err != nil {
			return p, cli.Errorf(cli.ExitUsage, "%s: %w", from, err)
		}
		if len(b) > translog.MaxCheckpoint {
			return p, cli.Errorf(cli.ExitUsage, "%s %s: not a checkpoint, it has %d bytes", from, name, len(b))
		}
		p.Checkpoints = append(p.Checkpoints, audit.Checkpoint{Name: name, Signed: string(b)})
	}
	for _, text := range keys {
		v, err := readKey("--verifier-key", text, translog.ParseVerifier)
		if err != nil {
			return p, err
		}
		p.Verifiers = append(p.Verifiers, v)
	}
	return p, nil
}

// NeedsKey is the error of checkpoints without a key that verifies them.
func NeedsKey() error {
	return cli.Errorf(cli.ExitUsage, "--checkpoint needs --verifier-key: the key that the server printed when the log was made, or the file that holds it")
}

// AddWitnesses reads the keys of --witness-key, of which a quorum must vouch for a checkpoint. No key
// counts twice.
func AddWitnesses(p *TrustAnchors, keys []string, quorum int) error {
	for _, text := range keys {
		all, err := readKey("--witness-key", text, parseWitnesses)
		if err != nil {
			return err
		}
		for _, w := range all {
			for _, other := range p.Witnesses {
				if w.Same(other) {
					return cli.Errorf(cli.ExitUsage, "--witness-key: %s and %s are the same key", other.Name(), w.Name())
				}
			}
			p.Witnesses = append(p.Witnesses, w)
		}
	}
	if quorum < 0 || quorum > len(p.Witnesses) {
		return cli.Errorf(cli.ExitUsage, "--quorum %d: it can be 0 to %d, the number of --witness-key", quorum, len(p.Witnesses))
	}
	p.Quorum = quorum
	return nil
}

// parseWitnesses reads the keys of witnesses, one on each line.
func parseWitnesses(text string) (all []*translog.Witness, err error) {
	for line := range strings.Lines(strings.TrimSpace(text)) {
		w, err := translog.ParseWitness(line)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	if len(all) == 0 {
		return nil, errors.New("no key of a witness")
	}
	return all, nil
}

// readKey reads a key, or the file of that name that holds one.
func readKey[K any](flag, text string, parse func(string) (K, error)) (key K, err error) {
	if key, err = parse(text); err == nil {
		return key, nil
	}
	b, err := os.ReadFile(text)
	if err != nil {
		return key, cli.Errorf(cli.ExitUsage, "%s: neither a key nor a file: %w", flag, err)
	}
	if key, err = parse(string(b)); err != nil {
		return key, cli.Errorf(cli.ExitUsage, "%s: %w", flag, err)
	}
	return key, nil
}
