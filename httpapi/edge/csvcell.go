package edge

import (
	"bytes"
	"encoding/csv"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// AppendCSV appends a row as RFC 4180 says, with cells that no spreadsheet
// takes for a formula; see harmless.
func AppendCSV(dst []byte, cells ...string) ([]byte, error) { return appendRow(dst, ',', cells) }

func appendRow(dst []byte, separator rune, cells []string) ([]byte, error) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = harmless(c, separator)
	}
	out := bytes.NewBuffer(dst)
	w := csv.NewWriter(out)
	w.Comma, w.UseCRLF = separator, true
	err := w.Write(row)
	w.Flush()
	return out.Bytes(), errors.Join(err, w.Error())
}

// harmless puts a quote before every sign that a spreadsheet may take for the
// beginning of a formula, and makes control characters and line separators
// blanks, so that every row is one line.
//
// A formula begins a cell, and a cell begins with the text and after each
// separator in it: where semicolons separate lists, Excel splits our rows at
// them, and quotation marks around the cell do not help there, as the row does
// not begin with one. So it is with commas in rows that semicolons separate.
// Before the sign there may be what a reader drops or does not show.
func harmless(s string, separator rune) string {
	var out strings.Builder
	begins := true // no visible character of the cell yet
	for _, r := range s {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			r = ' '
		}
		switch {
		case begins && formulaSign(r):
			out.WriteByte('\'')
			begins = false
		case r == ';' || r == '|' || r == ',' && separator != ',':
			begins = true
		case !unseen(r):
			begins = false
		}
		out.WriteRune(r)
	}
	return out.String()
}

// formulaSign reports whether a formula may begin with the character, or with its compatibility
// form: full-width, small and raised signs count like ASCII.
func formulaSign(r rune) bool {
	if r < utf8.RuneSelf {
		return strings.ContainsRune("=+-@", r)
	}
	return r == '\u2212' || strings.ContainsRune("=+-@", rune(norm.NFKC.String(string(r))[0]))
}

// unseen reports whether a reader of CSV may drop the character at the
// beginning of a cell, or show nothing for it: quotation marks, blanks, marks
// without width.
func unseen(r rune) bool {
	return r == '"' || unicode.IsSpace(r) ||
		unicode.In(r, unicode.Cf, unicode.Mn, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
