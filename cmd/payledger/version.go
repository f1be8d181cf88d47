package main

import (
	"fmt"
	"runtime"

	"payledger/cmd/payledger/console"
	"payledger/cmd/payledger/service"
)

// versionCmd prints what this binary was built from.
type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(a *console.App) error {
	version, revision := service.BuiltFrom()
	if a.JSON {
		return a.PrintJSON(map[string]string{"version": version, "revision": revision, "go": runtime.Version()})
	}
	_, err := fmt.Fprintf(a.Stdout, "payledger %s (revision %s, %s)\n", version, revision, runtime.Version())
	return err
}
