package main

import (
	"runtime"

	"payledger/cmd/payledger/console"
	"payledger/cmd/payledger/service"
)

// versionCmd prints what this binary was built from.
type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(a *console.App) error {
	version, revision := service.BuiltFrom()
	return a.Print(map[string]string{"version": version, "revision": revision, "go": runtime.Version()}, "payledger %s (revision %s, %s)\n", version, revision, runtime.Version())
}
