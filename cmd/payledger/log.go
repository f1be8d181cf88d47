package main

import (
	"fmt"
	"io"
	"net/http"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore"
	"payledger/eventstore/translog"
)

// logCmd is what makes the log evidence: the key and the checkpoints.
type logCmd struct {
	Key        logKeyCmd        `cmd:"" help:"Print the key that the log's checkpoints are verified with."`
	Checkpoint logCheckpointCmd `cmd:"" help:"Print a fresh signed checkpoint of the log."`
}

// logKeyCmd prints the verifier key.
type logKeyCmd struct {
	console.Directory
	New bool `help:"Make a new key first, where log.key is lost or never was. No server may run on the directory."`
}

// Help is shown by --help.
func (logKeyCmd) Help() string {
	return `The verifier key is public: give it to whoever checks the log. The key that signs stands
in log.key and never leaves the directory.

With --new, checkpoints signed with the lost key can no longer be compared with the log by
the server; the newest is moved aside, and auditors need both verifier keys.`
}

// Run prints the key.
func (c logKeyCmd) Run(a *console.App) error {
	d := datadir.Dir(c.Data)
	if c.New {
		if err := d.RenewLogKey(a.Stderr); err != nil {
			return err
		}
	} else if err := d.MustExist(); err != nil {
		return err
	}
	s, err := d.ReadLogKey()
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(map[string]string{"origin": s.Origin(), "verifier_key": s.VerifierKey()})
	}
	_, err = fmt.Fprintln(a.Stdout, s.VerifierKey())
	return err
}

// logCheckpointCmd prints the newest checkpoint.
type logCheckpointCmd struct{ console.Directory }

// Help is shown by --help.
func (logCheckpointCmd) Help() string {
	return `It covers every event recorded so far. Keep it where nobody who can change the log can
change it too: "payledger verify --checkpoint FILE" then tells whether anything up to it was
altered or is missing. The text is a C2SP signed note (c2sp.org/tlog-checkpoint).`
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
func (c logCheckpointCmd) Run(a *console.App) error {
	return c.Reading(a, func(m *adminclient.Client) error {
		resp, err := m.Send(a.Ctx, http.MethodGet, "/admin/log/checkpoint", nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		signed, err := io.ReadAll(io.LimitReader(resp.Body, translog.MaxCheckpoint))
		if err != nil {
			return fmt.Errorf("reading the checkpoint: %w", err)
		}
		if !a.JSON {
			_, err := a.Stdout.Write(signed)
			return err
		}
		s, err := datadir.Dir(c.Data).ReadLogKey()
		if err != nil {
			return err
		}
		v, err := translog.ParseVerifier(s.VerifierKey())
		if err != nil {
			return err
		}
		k, err := v.Open(signed)
		if err != nil {
			return err
		}
		return a.PrintJSON(signedCheckpoint{k.Origin, k.Size, k.Root, string(signed), v.Key()})
	})
}
