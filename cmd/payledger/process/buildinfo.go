// Package process is what concerns the process as a whole: its name, what it was built from, how
// many connections it accepts, its HTTP servers, its heap and processors, its log and that of libraries, its
// spans, and its end.
package process

import "runtime/debug"

// BuiltFrom returns the version and the revision this binary was built from.
func BuiltFrom() (version, revision string) {
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
