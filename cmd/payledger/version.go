package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// versionCmd prints what this binary was built from.
type versionCmd struct{}

// builtFrom answers the version and the revision this binary was built from.
func builtFrom() (version, revision string) {
	version, revision = "devel", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" && info.Main.Version != "(devel)" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	return version, revision
}

// Run prints the version.
func (versionCmd) Run(a *app) error {
	version, revision := builtFrom()
	if a.json {
		return a.printJSON(map[string]string{"version": version, "revision": revision, "go": runtime.Version()})
	}
	_, err := fmt.Fprintf(a.stdout, "payledger %s (revision %s, %s)\n", version, revision, runtime.Version())
	return err
}
