package main

import (
	"payledger/cmd/payledger/admincmd"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
)

// initCmd makes a data directory.
type initCmd struct {
	Data string `help:"Directory to make." required:"" placeholder:"DIR"`
}

// Validate refuses an empty name, as for the commands that use the directory.
func (c initCmd) Validate() error { return admincmd.Directory(c).Validate() }

// Help is shown by --help.
func (initCmd) Help() string {
	return `The directory gets an empty event log, the master key and the log's key. Everything
payment links and webhook secrets are made with derives from master.key; checkpoints of the
log are signed with log.key. Keep copies of both with your backups, apart from the log if
you can. The verifier key that is printed is public: give it to those who check the log.`
}

// Run makes the directory.
func (c initCmd) Run(a *cli.App) error {
	if err := datadir.Dir(c.Data).Initialise(); err != nil {
		return err
	}
	d := datadir.Dir(c.Data)
	s, err := d.ReadLogKey()
	if err != nil {
		return err
	}
	// A server needs a route, or every payment fails.
	return a.Print(map[string]string{"data": c.Data, "verifier_key": s.VerifierKey()}, `%[1]s is ready.
Keep copies of %[2]s and %[3]s with your backups.
Give this verifier key to those who check the log: %[4]s

Next, to try it out with a simulated provider:
  payledger serve --data %[5]s --sandbox

Or for real money, with the channel it comes through, here a program of yours named acme, which says over NATS what was paid:
  echo '[{"route":"acme","currency":"RUB"}]' > routes.json
  payledger serve --data %[5]s --routes routes.json --nats-listen 127.0.0.1:4222

Then, in another terminal:
  payledger project create 'My shop' --data %[5]s
`, c.Data, d.MasterKey(), d.LogKey(), s.VerifierKey(), shellWord(c.Data))
}
