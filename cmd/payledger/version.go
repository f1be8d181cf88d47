package main

import (
	"fmt"
	"runtime"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/process"
)

// versionCmd prints what this binary was built from.
type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(a *cli.App) error {
	version, revision := process.BuiltFrom()
	return a.Print(map[string]string{"version": version, "revision": revision, "go": runtime.Version()}, "%s\n", versionLine())
}

// release is only the version.
func release() string {
	version, _ := process.BuiltFrom()
	return version
}

// versionLine is what --version prints too.
func versionLine() string {
	version, revision := process.BuiltFrom()
	return fmt.Sprintf("payledger %s (revision %s, %s)", version, revision, runtime.Version())
}
