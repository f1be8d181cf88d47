// Package reports reads the settlement reports of providers: files of separated values, which a
// Profile describes. A profile is data, so that no provider has a parser of its own.
package reports

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/domain/settlement"
)

// Profile is the form of a provider's report.
type Profile struct {
	Delimiter string `json:"delimiter"` // one of , ; | and a tab
	Encoding  string `json:"encoding"`  // utf-8 or windows-1251
	// DecimalMarks are the characters that may stand before the fraction of an amount, and
	// ThousandsSeparators those that may stand between groups of three digits.
	DecimalMarks        string   `json:"decimal_marks"`
	ThousandsSeparators string   `json:"thousands_separators"`
	Dates               []string `json:"dates"`    // such as "DD.MM.YYYY HH:mm:ss"; see layout
	Preamble            int      `json:"preamble"` // at most so many lines stand before the header
	// Kinds are the values of the column "kind".
	Kinds map[string]settlement.Kind `json:"kinds"`
	// Reversals are values of that column whose money goes the other way: a refund that comes back.
	Reversals []string `json:"reversals"`
	// Unsigned are kinds whose gross and net stand there with the other sign: refunds as positive.
	Unsigned []settlement.Kind `json:"unsigned"`
	// Tables are the forms that the lines can have. The header of a file decides: its table is the
	// first that has all its columns there.
	Tables []Table `json:"tables"`
}

// Table is one form of lines.
type Table struct {
	Kind     settlement.Kind `json:"kind"`     // of every line, where no column has it
	Currency domain.Currency `json:"currency"` // likewise
	// Columns are the names in the header by what stands in the column: kind, payment_id, refund_id,
	// reference, gross, fee, net, currency, settled_on. Of several names of a text the first counts
	// that has one in the line; several of an amount are added up.
	Columns map[string]Names `json:"columns"`
	// Optional are those of the columns that the header need not have.
	Optional []string `json:"optional"`
	Totals   []Total  `json:"totals"`
}

// Total is a row behind the lines. Either its first cell is the label with a value and perhaps its
// currency, or it is a row of the table that begins with the label.
type Total struct {
	Label    string `json:"label"` // how its first cell begins
	Of       Names  `json:"of"`    // gross, fee, net or lines
	Optional bool   `json:"optional"`
}

// Names is a name or an array of names.
type Names []string

// UnmarshalJSONFrom reads the value.
func (n *Names) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	if in.PeekKind() == '"' {
		*n = Names{""}
		return json.UnmarshalDecode(in, &(*n)[0])
	}
	return json.UnmarshalDecode(in, (*[]string)(n))
}

const (
	maxProfile = 64 << 10
	folder     = "profiles/"
	extension  = ".json"
)

//go:embed profiles
var embedded embed.FS

// Known lists the profiles that come with the program.
func Known() (names []string) {
	entries, err := embedded.ReadDir(strings.TrimSuffix(folder, "/"))
	if err != nil {
		panic(err) // they are in the program
	}
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), extension))
	}
	return names
}

// Load reads a profile: one of Known, or else a file. The error says which member is wrong.
func Load(nameOrFile string) (p Profile, err error) {
	var file fs.File
	if slices.Contains(Known(), nameOrFile) {
		file, err = embedded.Open(folder + nameOrFile + extension)
	} else {
		file, err = os.Open(nameOrFile)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("%s: there is neither a file nor a profile of this name; the profiles are %s", nameOrFile, strings.Join(Known(), ", "))
	}
	if err != nil {
		return p, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxProfile+1))
	if err != nil {
		return p, fmt.Errorf("%s: %w", nameOrFile, err)
	}
	if len(content) > maxProfile {
		return p, fmt.Errorf("%s: longer than %d bytes", nameOrFile, maxProfile)
	}
	err = json.Unmarshal(content, &p, json.RejectUnknownMembers(true))
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok && errors.Is(err, json.ErrUnknownName) {
		return p, fmt.Errorf("%s: %s: unknown member", nameOrFile, wrong.JSONPointer)
	} else if ok {
		return p, fmt.Errorf("%s: %s: a JSON %s is of the wrong type here", nameOrFile, wrong.JSONPointer, wrong.JSONKind)
	}
	if err != nil {
		return p, fmt.Errorf("%s: not JSON: %w", nameOrFile, err)
	}
	if member, want := p.check(); want != "" {
		return p, fmt.Errorf("%s: %s: %s", nameOrFile, member, want)
	}
	return p, nil
}

// The members of a line that columns have.
const (
	colKind      = "kind"
	colPayment   = "payment_id"
	colRefund    = "refund_id"
	colReference = "reference"
	colGross     = "gross"
	colFee       = "fee"
	colNet       = "net"
	colCurrency  = "currency"
	colSettledOn = "settled_on"

	ofLines = "lines"
)

func columnNames() []string {
	return []string{colKind, colPayment, colRefund, colReference, colGross, colFee, colNet, colCurrency, colSettledOn}
}

func amounts() []string { return []string{colGross, colFee, colNet} }

// checks are the demands on a profile's members, of which the first that is not met is kept.
type checks struct{ member, want string }

// must demands something of a member, a JSON pointer with the values of its verbs.
func (c *checks) must(met bool, want, member string, values ...any) {
	if !met && c.want == "" {
		c.member, c.want = fmt.Sprintf(member, values...), want
	}
}

// check says which member is wrong, as a JSON pointer, and what is wanted there; "" for none.
func (p Profile) check() (member, want string) {
	const kinds = "want payment, refund, fee, dispute or other"
	var c checks
	only := func(s, characters string) bool { return strings.Trim(s, characters) == "" }
	known := func(k settlement.Kind) bool { return slices.Contains(settlement.Kinds(), k) }
	c.must(len(p.Delimiter) == 1 && only(p.Delimiter, ",;|\t"), `want one of "," ";" "|" and "\t"`, "/delimiter")
	c.must(p.Encoding == utf8Name || p.Encoding == windows1251Name, "want "+utf8Name+" or "+windows1251Name, "/encoding")
	c.must(p.DecimalMarks != "" && only(p.DecimalMarks, ".,"), `want ".", "," or both`, "/decimal_marks")
	c.must(!strings.ContainsAny(p.ThousandsSeparators, p.DecimalMarks) && only(p.ThousandsSeparators, ".,' \u00a0\u202f\u2019"),
		`want a selection of . , ' and blanks (U+0020, U+00A0, U+202F, U+2019) that are no decimal marks`, "/thousands_separators")
	c.must(len(p.Dates) > 0, "want the forms of dates, such as YYYY-MM-DD", "/dates")
	for i, date := range p.Dates {
		_, ok := layout(date)
		c.must(ok, "want YYYY, MM and DD, perhaps HH, mm, ss and ZZ (a zone such as +03:00), and . , - / : T and blanks between them", "/dates/%d", i)
	}
	c.must(p.Preamble >= 0 && p.Preamble <= maxPreamble, fmt.Sprintf("want a number of lines, 0 to %d", maxPreamble), "/preamble")
	for value, kind := range p.Kinds {
		c.must(known(kind), kinds, "/kinds/%s", value)
	}
	for i, value := range p.Reversals {
		c.must(p.Kinds[value] != "", "want a value that kinds has", "/reversals/%d", i)
	}
	for i, kind := range p.Unsigned {
		c.must(known(kind), kinds, "/unsigned/%d", i)
	}
	c.must(len(p.Tables) > 0, "want one or more tables", "/tables")
	for i, t := range p.Tables {
		for name, headers := range t.Columns {
			c.must(slices.Contains(columnNames(), name), "unknown; want "+strings.Join(columnNames(), ", "), "/tables/%d/columns/%s", i, name)
			c.must(len(headers) > 0 && !slices.Contains(headers, ""), "want the name of the column, or an array of names", "/tables/%d/columns/%s", i, name)
		}
		c.must(t.Columns[colGross] != nil, "missing", "/tables/%d/columns/gross", i)
		c.must(t.Columns[colSettledOn] != nil, "missing", "/tables/%d/columns/settled_on", i)
		for j, name := range t.Optional {
			c.must(t.Columns[name] != nil, "want one of the columns", "/tables/%d/optional/%d", i, j)
		}
		byColumn, inColumn := t.Columns[colKind] != nil, t.Columns[colCurrency] != nil
		c.must(byColumn == (t.Kind == ""), "want either this or the column kind", "/tables/%d/kind", i)
		c.must(!byColumn || len(p.Kinds) > 0, "the profile has no kinds, which say what the values of the column are", "/tables/%d/columns/kind", i)
		c.must(byColumn || known(t.Kind), kinds, "/tables/%d/kind", i)
		c.must(inColumn == (t.Currency == ""), "want either this or the column currency", "/tables/%d/currency", i)
		c.must(inColumn || t.Currency.TwoMinorDigits(), "want the code of a currency with two minor digits", "/tables/%d/currency", i)
		for j, total := range t.Totals {
			c.must(total.Label != "" && strings.TrimSpace(total.Label) == total.Label, "want how the row begins, without blanks around it", "/tables/%d/totals/%d/label", i, j)
			c.must(len(total.Of) > 0, "missing", "/tables/%d/totals/%d/of", i, j)
			for _, of := range total.Of {
				c.must(of == ofLines || t.Columns[of] != nil && slices.Contains(amounts(), of), "want gross, fee or net, of which there are columns, or lines", "/tables/%d/totals/%d/of", i, j)
			}
		}
	}
	return c.member, c.want
}

// layout is Go's layout of a form of dates.
func layout(date string) (string, bool) {
	made := strings.NewReplacer("YYYY", "2006", "MM", "01", "DD", "02", "HH", "15", "mm", "04", "ss", "05", "ZZ", "Z07:00").Replace(date)
	rest := strings.NewReplacer("YYYY", "", "MM", "", "DD", "", "HH", "", "mm", "", "ss", "", "ZZ", "").Replace(date)
	ok := utf8.ValidString(date) && strings.Trim(rest, " .,-/:T") == ""
	for _, part := range []string{"YYYY", "MM", "DD"} {
		ok = ok && strings.Count(date, part) == 1
	}
	return made, ok
}
