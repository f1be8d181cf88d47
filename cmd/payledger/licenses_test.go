package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var updateLicenses = flag.Bool("update-licenses", false, "write licenses.json anew")

// TestLicensesAreThoseOfTheBinary finds the licences of everything that is linked:
// in the roots of the modules and in each folder above a package that is used.
func TestLicensesAreThoseOfTheBinary(t *testing.T) {
	t.Parallel()
	var c licenseCollection
	root := goList(t, "linux", "env", "GOROOT")
	c.add(t, licensedWork{Name: "Go", Version: "standard library and runtime"}, filepath.Join(root[0], "LICENSE"))
	packages := make(map[string][]string) // folders by module
	for _, system := range []string{"linux", "darwin"} {
		for _, line := range goList(t, system, "list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}", ".") {
			module, folder, _ := strings.Cut(line, "\t")
			top, folder, _ := strings.Cut(folder, "\t")
			for packages[module+"\t"+top] = append(packages[module+"\t"+top], top); folder != top; folder = filepath.Dir(folder) {
				packages[module+"\t"+top] = append(packages[module+"\t"+top], folder)
			}
		}
	}
	for _, module := range slices.Sorted(maps.Keys(packages)) {
		name, _, _ := strings.Cut(module, "\t")
		name, version, _ := strings.Cut(name, " ")
		c.add(t, licensedWork{Name: name, Version: version}, licenseFiles(t, packages[module])...)
	}
	// Code of others that modules contain without its licence.
	apache := filepath.Join(goList(t, "linux", "list", "-m", "-f", "{{.Dir}}", "github.com/prometheus/client_golang")[0], "LICENSE")
	c.add(t, licensedWork{Name: "Swagger UI", Version: "in github.com/swaggest/swgui", Credit: "Copyright SmartBear Software Inc."}, apache)

	want, err := json.Marshal(c.licenseList, jsontext.WithIndent("\t"))
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *updateLicenses {
		if err := os.WriteFile("licenses.json", want, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(want, licensesJSON) {
		t.Error("licenses.json is not what the binary contains: run \"go generate ./cmd/payledger\"")
	}
}

// licenseCollection keeps each text once.
type licenseCollection struct{ licenseList }

func (c *licenseCollection) add(t *testing.T, w licensedWork, files ...string) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(text) { // some are Latin-1, whose bytes are the code points
			var fromLatin []rune
			for _, b := range text {
				fromLatin = append(fromLatin, rune(b))
			}
			text = []byte(string(fromLatin))
		}
		at := slices.Index(c.Texts, string(text))
		if at < 0 {
			at = len(c.Texts)
			c.Texts = append(c.Texts, string(text))
		}
		if !slices.ContainsFunc(w.Files, func(f licenseFile) bool { return f.Text == at }) {
			w.Files = append(w.Files, licenseFile{filepath.Base(file), at})
		}
	}
	if len(w.Files) == 0 {
		t.Errorf("%s %s has no licence", w.Name, w.Version)
	}
	c.Works = append(c.Works, w)
}

func licenseFiles(t *testing.T, folders []string) (files []string) {
	t.Helper()
	name := regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents|ftl\.txt)`)
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Type().IsRegular() && name.MatchString(e.Name()) && filepath.Ext(e.Name()) != ".go" {
				files = append(files, filepath.Join(folder, e.Name()))
			}
		}
	}
	return files
}

// goList runs the go command for a system and answers the lines it prints.
func goList(t *testing.T, system string, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w\n%s", cmd, err, stderr.String()))
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
