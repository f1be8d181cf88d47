package main_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"
)

// The size of a package, tests apart, that a newcomer can still read as a whole:
// some 18 files or 3,000 lines. The bounds leave room for what is being added.
const (
	maxFiles = 20
	maxLines = 3300
)

// largeRooms are the packages that are larger than the bounds, with the reason.
// None may grow beyond its own bounds.
func largeRooms() map[string]struct {
	files, lines int
	why          string
} {
	return map[string]struct {
		files, lines int
		why          string
	}{
		"domain":                {26, 4190, "the payment with its events, commands and rules, and what they are made of: amounts, ids, errors"},
		"projections/views":     {25, 3950, "one file for each view: a new view is a new file, and none of them is read with another; what is queued for webhooks and became of it is one of them"},
		"cmd/payledger/service": {21, 2850, "the parts of a running server, each with what starts and stops it"},
		"httpapi/admin":         {22, 2800, "one file for each thing that operators ask for or do: a new one is a new file, and none of them is read with another"},
		"httpapi/account":       {26, 3500, "one file for each page, and those that all of them share: a new page is a new file, and none of them is read with another"},
		"httpapi/merchant":      {22, 3600, "one file for each thing that merchants ask for or do: a new one is a new file, and none of them is read with another"},
		"eventstore/bolt":       {21, 3580, "the file of the log and all that changes it: what stages a group, alone or in a cluster, is read together"},
	}
}

// TestLayoutKeepsPackagesSmall counts files and lines of each package.
func TestLayoutKeepsPackagesSmall(t *testing.T) {
	t.Parallel()
	for _, b := range oversized(t, os.DirFS("../..")) {
		t.Error(b)
	}
}

// TestLayoutLimitsBite counts packages that are too large.
func TestLayoutLimitsBite(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{
		"long/a.go":          {Data: bytes.Repeat([]byte("\n"), maxLines)},
		"long/b.go":          {Data: []byte("package long\n")},
		"fits/a.go":          {Data: bytes.Repeat([]byte("\n"), maxLines)},
		"fits/a_test.go":     {Data: bytes.Repeat([]byte("\n"), maxLines)},
		"fits/testdata/a.go": {Data: []byte("package a\n")},
		"domain/a.go":        {Data: bytes.Repeat([]byte("\n"), largeRooms()["domain"].lines+1)},
	}
	for i := range maxFiles + 1 {
		tree[fmt.Sprintf("many/%d.go", i)] = &fstest.MapFile{Data: []byte("package many\n")}
	}
	got := strings.Join(oversized(t, tree), "\n")
	for _, folder := range []string{"long", "many", "domain"} {
		if !strings.Contains(got, folder+" has ") {
			t.Errorf("%s is not found to be too large:\n%s", folder, got)
		}
	}
	if strings.Contains(got, "fits") {
		t.Errorf("a package within the bounds is found to be too large:\n%s", got)
	}
}

// oversized lists the packages that are larger than their bounds.
func oversized(t *testing.T, tree fs.FS) (found []string) {
	t.Helper()
	files, lines := map[string]int{}, map[string]int{}
	sources(t, tree, func(name string, src []byte) {
		files[path.Dir(name)]++
		lines[path.Dir(name)] += bytes.Count(src, []byte("\n"))
	})
	for folder, n := range files {
		filesBound, linesBound := maxFiles, maxLines
		if large, ok := largeRooms()[folder]; ok {
			filesBound, linesBound = large.files, large.lines
		}
		if n > filesBound || lines[folder] > linesBound {
			found = append(found, fmt.Sprintf("%s has %d files with %d lines, tests apart; its bounds are %d and %d: move out a part that can be understood by itself",
				folder, n, lines[folder], filesBound, linesBound))
		}
	}
	return found
}

// sources goes through the Go files of a tree, tests apart.
func sources(t *testing.T, tree fs.FS, each func(name string, src []byte)) {
	t.Helper()
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		if err == nil {
			each(name, src)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
