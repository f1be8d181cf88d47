package doctest

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestNamedBenchmarks finds the benchmarks that comments and documents name in a
// command of one line, by the flag -bench and the folder of their package.
func TestNamedBenchmarks(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	command := regexp.MustCompile(`go test[^\n]* -bench ([A-Z]\w*)[^\n]*? \./([\w/]+)`)
	found := 0
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".go" && path.Ext(name) != ".md" {
			return err
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		for _, m := range command.FindAllStringSubmatch(string(content), -1) {
			found++
			if !declares(t, root, m[2], m[1]) {
				t.Errorf("%s: no benchmark in %s has %s in its name", name, m[2], m[1])
			}
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Fatalf("%d commands, %v", found, err)
	}
}

// declares reports whether a folder's tests have a benchmark of that name.
func declares(t *testing.T, root fs.FS, folder, name string) bool {
	t.Helper()
	tests, err := fs.Glob(root, path.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	benchmark := regexp.MustCompile(`(?m)^func Benchmark\w*` + strings.TrimSuffix(name, "$"))
	for _, file := range tests {
		content, err := fs.ReadFile(root, file)
		if err != nil {
			t.Fatal(err)
		}
		if benchmark.Match(content) {
			return true
		}
	}
	return false
}
