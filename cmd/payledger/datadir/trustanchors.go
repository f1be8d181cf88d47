package datadir

import (
	"os"

	"payledger/cmd/payledger/exit"
	"payledger/eventstore/audit"
	"payledger/eventstore/translog"
)

// TrustAnchors are what a log is verified against: signed checkpoints and the
// keys that verify them, as --checkpoint and --verifier-key name them.
type TrustAnchors struct {
	Checkpoints []audit.Checkpoint
	Verifiers   []*translog.Verifier
}

// ReadTrustAnchors reads the files of checkpoints and the keys.
func ReadTrustAnchors(checkpoints, keys []string) (p TrustAnchors, err error) {
	for _, name := range checkpoints {
		b, err := os.ReadFile(name)
		if err != nil {
			return p, exit.With(exit.Usage, "--checkpoint: %w", err)
		}
		if len(b) > translog.MaxCheckpoint {
			return p, exit.With(exit.Usage, "--checkpoint %s: not a checkpoint, it has %d bytes", name, len(b))
		}
		p.Checkpoints = append(p.Checkpoints, audit.Checkpoint{Name: name, Signed: b})
	}
	for _, text := range keys {
		v, err := readVerifier(text)
		if err != nil {
			return p, err
		}
		p.Verifiers = append(p.Verifiers, v)
	}
	return p, nil
}

// readVerifier reads a key, or the file of that name that holds one.
func readVerifier(text string) (*translog.Verifier, error) {
	if v, err := translog.ParseVerifier(text); err == nil {
		return v, nil
	}
	b, err := os.ReadFile(text)
	if err != nil {
		return nil, exit.With(exit.Usage, "--verifier-key: neither a key nor a file: %w", err)
	}
	v, err := translog.ParseVerifier(string(b))
	if err != nil {
		return nil, exit.With(exit.Usage, "--verifier-key: %w", err)
	}
	return v, nil
}
