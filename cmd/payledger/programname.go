package main

import (
	"path/filepath"
	"regexp"
)

// goRunDir matches the folder of a program that "go run" has built: that of
// one build, …/go-build12/b001/exe, or, where it is kept for the next one, a
// folder of the build cache that is named after what it was built from.
var goRunDir = regexp.MustCompile(`/go-build[0-9]+/b001/exe$|/[0-9a-f]{2}/[0-9a-f]{64}-d$`)

// programName is what to type to run this program again, from how it was
// started.
func programName(arg0 string) string {
	if goRunDir.MatchString(filepath.ToSlash(filepath.Dir(arg0))) {
		return "go run ./cmd/payledger"
	}
	return arg0
}
