package main

import "fmt"

// initCmd makes a data directory.
type initCmd struct {
	Data string `help:"Directory to make." required:"" placeholder:"DIR"`
}

// Help is shown by --help.
func (initCmd) Help() string {
	return `The directory gets an empty event log and the master key. Everything payment links
and webhook secrets are made with derives from that key: keep a copy of master.key
with your backups, apart from the log if you can.`
}

// Run makes the directory.
func (c initCmd) Run(a *app) error {
	if err := dataDir(c.Data).initialise(); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]string{"data": c.Data})
	}
	fmt.Fprintf(a.stdout, "%s is ready.\nKeep a copy of %s with your backups.\nNext: payledger serve --data %s\n",
		c.Data, dataDir(c.Data).masterKey(), c.Data)
	return nil
}
