package main

import (
	"fmt"
	"runtime"

	"payledger/cmd/payledger/service"
)

// versionCmd prints what this binary was built from.
type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(a *app) error {
	version, revision := service.BuiltFrom()
	if a.json {
		return a.printJSON(map[string]string{"version": version, "revision": revision, "go": runtime.Version()})
	}
	_, err := fmt.Fprintf(a.stdout, "payledger %s (revision %s, %s)\n", version, revision, runtime.Version())
	return err
}
