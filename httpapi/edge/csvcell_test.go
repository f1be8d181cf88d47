package edge

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

func TestCellsAreHarmless(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "a": "a", "a=b": "a=b", "a-1": "a-1", "a; b": "a; b", `{"a":[1,-1]}`: `{"a":[1,-1]}`,
		"=1": "'=1", "+1": "'+1", "-1": "'-1", "@x": "'@x",
		"\tx": " x", "\rx": " x", "\nx": " x", "a\x00\r\nb": "a   b", "a\u2028b": "a b",
		"\t=1": " '=1", "\r\n=1": "  '=1", "  =1": "  '=1", "\u00a0=1": "\u00a0'=1", "\u3000＝1": "\u3000'＝1",
		"\ufeff=1": "\ufeff'=1", "\u200b\u2060=1": "\u200b\u2060'=1", "\ufe0f=1": "\ufe0f'=1", "\u3164=1": "\u3164'=1",
		"＝1": "'＝1", "＋1": "'＋1", "－1": "'－1", "＠x": "'＠x", "﹦1": "'﹦1", "−1": "'−1",
		"x;=1+1;y": "x;'=1+1;y", "x; =1;@y;": "x; '=1;'@y;", "x|+1": "x|'+1", "x;\t＝1": "x; '＝1",
		`x;"=1+1;y`: `x;"'=1+1;y`, `"=1`: `"'=1`, ";;=1": ";;'=1", `{"a":"x;=1"}`: `{"a":"x;'=1"}`,
	} {
		if got := harmless(in, ','); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// FuzzCellsAreHarmless reads rows as spreadsheets do, whatever the separator
// of lists is, and finds no formula in them.
func FuzzCellsAreHarmless(f *testing.F) {
	for _, s := range []string{"=1", "x;=1+1;y", `x;"=1+1`, "a\t=1", `";"";=1`, "x|\ufeff＝1", "a,=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, own := range ",;" {
			row, err := appendRow(nil, own, []string{"01M7W78FJBM8T4R7B5N0C1D2E3", text, "2026-11-20T10:15:30.123Z"})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Count(string(row), "\n") != 1 {
				t.Errorf("%q is not one line", row)
			}
			for _, separator := range ",;|\t" {
				for _, cell := range spreadsheetCells(strings.TrimSuffix(string(row), "\r\n"), separator) {
					visible := strings.TrimLeftFunc(norm.NFKC.String(cell), unseen)
					if visible != "" && strings.ContainsRune("=+-@", rune(visible[0])) {
						t.Errorf("separated by %q, %q has the formula %q", separator, row, cell)
					}
				}
			}
		}
	})
}

// spreadsheetCells splits a line as Excel does: a quotation mark counts only
// at the beginning of a cell, up to the next single one, and what follows that
// belongs to the cell.
func spreadsheetCells(line string, separator rune) (cells []string) {
	var cell strings.Builder
	quoted, begins, runes := false, true, []rune(line)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		switch {
		case quoted && r == '"' && i+1 < len(runes) && runes[i+1] == '"':
			cell.WriteRune(r)
			i++
		case quoted && r == '"':
			quoted = false
		case begins && r == '"':
			quoted = true
		case !quoted && r == separator:
			cells = append(cells, cell.String())
			cell.Reset()
			begins = true
			continue
		default:
			cell.WriteRune(r)
		}
		begins = false
	}
	return append(cells, cell.String())
}
