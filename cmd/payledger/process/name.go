package process

import (
	"path/filepath"
	"regexp"
)

// goRunDir matches the folder of a program that "go run" has built: a temporary
// one, …/go-build12/b001/exe, or one in the build cache, named by a hash.
var goRunDir = regexp.MustCompile(`/go-build[0-9]+/b001/exe$|/[0-9a-f]{2}/[0-9a-f]{64}-d$`)

// Name is the command that runs this program again, derived from how it
// was started.
func Name(arg0 string) string {
	if goRunDir.MatchString(filepath.ToSlash(filepath.Dir(arg0))) {
		return "go run ./cmd/payledger"
	}
	return arg0
}
