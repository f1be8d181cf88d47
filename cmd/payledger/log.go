package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/cmd/payledger/admincmd"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/service"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/translog"
)

// logCmd is what makes the log evidence: the key and the checkpoints.
type logCmd struct {
	Key        logKeyCmd        `cmd:"" help:"Print the key that the log's checkpoints are verified with."`
	Checkpoint logCheckpointCmd `cmd:"" help:"Print a signed checkpoint of the log."`
	WitnessKey logWitnessKeyCmd `cmd:"" help:"Make the key of a witness, who vouches for checkpoints with a copy of the log."`
	Cosign     logCosignCmd     `cmd:"" help:"Vouch for a checkpoint: compare it with a copy of the log and sign it too."`
}

// logKeyCmd prints the verifier key.
type logKeyCmd struct {
	admincmd.Directory
	New bool `help:"Make a new key first, where log.key is lost or never was. No server may run on the directory."`
}

// Help is shown by --help.
func (logKeyCmd) Help() string {
	return `The verifier key is public: give it to those who check the log. The key that signs is
in log.key and never leaves the directory.

With --new, checkpoints signed with the lost key can no longer be compared with the log by
the server; the newest is moved aside, and auditors need both verifier keys. That a key was
made, and by whom, is recorded in the log before the key is written.`
}

// Run prints the key.
func (c logKeyCmd) Run(a *cli.App) error {
	d := datadir.Dir(c.Data)
	if c.New {
		actor, err := a.Actor()
		if err != nil {
			return err
		}
		if err := service.RenewLogKey(a.Ctx, d, eventstore.Cause{Actor: actor}, a.Stderr); err != nil {
			return err
		}
	} else if err := d.MustExist(); err != nil {
		return err
	}
	s, err := d.ReadLogKey()
	if err != nil {
		return err
	}
	return a.Print(map[string]string{"origin": s.Origin(), "verifier_key": s.VerifierKey()}, "%s\n", s.VerifierKey())
}

// logCheckpointCmd prints the newest checkpoint.
type logCheckpointCmd struct{ admincmd.Directory }

// Help is shown by --help.
func (logCheckpointCmd) Help() string {
	return `It covers every event recorded so far, or where nothing can be written is the newest of before.
Keep it where nobody who can change the log can: "payledger verify --checkpoint FILE" then tells
whether anything up to it was altered or is missing. It is a C2SP signed note (c2sp.org/tlog-checkpoint).`
}

// signedCheckpoint is a checkpoint as --json prints it.
type signedCheckpoint struct {
	Origin      string              `json:"origin"`
	Size        eventstore.Position `json:"size"`
	Root        tlog.Hash           `json:"root"`
	Checkpoint  string              `json:"checkpoint"`
	VerifierKey string              `json:"verifier_key"`
}

// Run prints the checkpoint.
func (c logCheckpointCmd) Run(a *cli.App) error {
	return c.Holding(a, service.Options{Reading: true}, func(m *cli.Client) error {
		signed, err := m.Text(a.Ctx, "/admin/log/checkpoint", translog.MaxCheckpoint)
		if err != nil {
			return err
		}
		if !a.JSON {
			_, err := a.Stdout.Write(signed)
			return err
		}
		s, err := datadir.Dir(c.Data).ReadLogKey()
		if err != nil {
			return err
		}
		k, err := s.Verifier().Open(signed)
		if err != nil {
			return err
		}
		return a.PrintJSON(signedCheckpoint{k.Origin, k.Size, k.Root, string(signed), s.VerifierKey()})
	})
}

// logWitnessKeyCmd makes a witness's key.
type logWitnessKeyCmd struct {
	Name string `arg:"" help:"The witness's name, one word: by custom an address without a scheme, such as audit.example.com/ledger."`
	Key  string `required:"" help:"File to make for the private key; it must not exist." placeholder:"FILE"`
}

// Help is shown by --help.
func (logWitnessKeyCmd) Help() string {
	return `Writes the private key to a file that only its owner can read, and prints the public one:
give that to those who verify with --witness-key. The keys are those of C2SP cosignatures
(c2sp.org/tlog-cosignature).`
}

// Run makes the key.
func (c logWitnessKeyCmd) Run(a *cli.App) error {
	secret, err := translog.NewWitnessKey(rand.Reader, c.Name)
	if err != nil {
		return cli.WithCode(cli.ExitUsage, err)
	}
	w, err := translog.ParseCosigner(secret)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(c.Key, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return cli.Errorf(cli.ExitUsage, "--key: %w", err)
	}
	if _, err := fmt.Fprintln(f, secret); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return a.Print(map[string]string{"name": c.Name, "witness_key": w.VerifierKey()}, "%s\n", w.VerifierKey())
}

// logCosignCmd vouches for a checkpoint.
type logCosignCmd struct {
	Checkpoint  string `arg:"" help:"File with the signed checkpoint." placeholder:"FILE"`
	Data        string `help:"Data directory with the copy of the log, of a running server or a stopped one." placeholder:"DIR"`
	File        string `help:"In place of --data: a copy of a ledger.db, or an exported bundle." placeholder:"FILE"`
	Key         string `required:"" help:"File with the witness's private key." placeholder:"FILE"`
	VerifierKey string `required:"" help:"Verifier key of the log, or a file that holds it." placeholder:"KEY|FILE"`
}

// Help is shown by --help.
func (logCosignCmd) Help() string {
	return `Verifies the whole copy as "payledger verify" does. If the checkpoint is of its events,
prints it with the witness's signature added; otherwise nothing is signed, and the report
says why (exit code 7). Cosign only with a copy that the ledger's operator cannot change.`
}

// Run compares and signs.
func (c logCosignCmd) Run(a *cli.App) error {
	secret, err := os.ReadFile(c.Key)
	if err != nil {
		return cli.Errorf(cli.ExitUsage, "--key: %w", err)
	}
	w, err := translog.ParseCosigner(string(secret))
	if err != nil {
		return cli.Errorf(cli.ExitUsage, "--key %s: %w", c.Key, err)
	}
	given, err := datadir.ReadTrustAnchors("<checkpoint>", []string{c.Checkpoint}, []string{c.VerifierKey})
	if err != nil {
		return err
	}
	verify := verifyCmd{Data: c.Data, File: c.File, Trust: admincmd.Trust{Checkpoint: []string{c.Checkpoint}, VerifierKey: []string{c.VerifierKey}}}
	report, err := verify.check(a)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(report.Checkpoints, func(r audit.CheckpointResult) bool {
		return r.Name == c.Checkpoint && r.Outcome == audit.OK
	}); i < 0 || !report.OK() {
		if err := writeReport(a.Stderr, report); err != nil {
			return err
		}
		return cli.Errorf(cli.ExitVerify, "%s was not cosigned: this copy of the log does not confirm it", c.Checkpoint)
	}
	cosigned, err := w.Cosign(given.Verifiers[0], []byte(given.Checkpoints[0].Signed))
	if err != nil {
		return err
	}
	return a.Print(map[string]string{"checkpoint": string(cosigned)}, "%s", cosigned)
}
