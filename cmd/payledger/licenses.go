package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/cli"
)

//go:generate go test -run TestLicensesAreThoseOfTheBinary . -update-licenses
//go:generate go test -run ^TestMetrics$ . -update-metrics

// licensesJSON is what every work in the binary asks to be shown, as go
// generate has found it in the modules' sources. A test compares it with what
// is linked.
//
//go:embed licenses.json
var licensesJSON []byte

// licenseList are the works of others in the binary.
type licenseList struct {
	Works []licensedWork `json:"works"`
	Texts []string       `json:"texts"`
}

// licensedWork is a module, or what one has in it of others.
type licensedWork struct {
	Name    string `json:"name"`
	Version string `json:"version,omitzero"`
	Credit  string `json:"credit,omitzero"` // what its licence wants said in these words

	Files []licenseFile `json:"files"`
}

type licenseFile struct {
	Name string `json:"name"`
	Text int    `json:"text"` // index in Texts
}

// licensesCmd prints the licences of what the binary contains.
type licensesCmd struct{}

// Help is shown by --help.
func (licensesCmd) Help() string {
	return `Each module the program is built from, Go's own library among them, with its licence and
notices. If you pass the binary on, pass these on with it.`
}

// Run prints them, each text once.
func (licensesCmd) Run(a *cli.App) error {
	var l licenseList
	if err := json.Unmarshal(licensesJSON, &l); err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(l)
	}
	var out strings.Builder
	out.WriteString("payledger contains the following works. The numbers are those of the texts below.\n\n")
	for _, w := range l.Works {
		fmt.Fprintf(&out, "%s %s", w.Name, w.Version)
		for _, f := range w.Files {
			fmt.Fprintf(&out, " [%d]", f.Text+1)
		}
		out.WriteByte('\n')
		if w.Credit != "" {
			fmt.Fprintf(&out, "    %s\n", w.Credit)
		}
	}
	for i, text := range l.Texts {
		fmt.Fprintf(&out, "\n%s [%d] %s\n\n%s\n", strings.Repeat("-", 20), i+1, strings.Repeat("-", 20), strings.TrimSpace(text))
	}
	_, err := fmt.Fprint(a.Stdout, out.String())
	return err
}
