package reports

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"payledger/domain"
	"payledger/domain/settlement"
)

const (
	utf8Name        = "utf-8"
	windows1251Name = "windows-1251"

	maxLine     = 64 << 10 // bytes of a line, also of one with line breaks in its cells
	readAhead   = 4 << 10  // what encoding/csv reads at a time
	maxPreamble = 100

	// A line is compared with this many before it, at least. A repetition that is farther away is
	// found when the payment is settled a second time.
	remembered = 1 << 17
)

// Fault is what is wrong with a report. Nothing after it was read.
type Fault struct {
	Line    int    // of the file, from 1
	Column  int    // cell of the line, from 1; 0: the line as a whole
	Field   string // what the header calls the column
	Problem string
	err     error
}

func (f *Fault) Error() string {
	switch {
	case f.Column == 0:
		return fmt.Sprintf("line %d: %s", f.Line, f.Problem)
	case f.Field == "":
		return fmt.Sprintf("line %d, column %d: %s", f.Line, f.Column, f.Problem)
	}
	return fmt.Sprintf("line %d, column %d (%s): %s", f.Line, f.Column, f.Field, f.Problem)
}

// Unwrap is the reader's own error, if it was that.
func (f *Fault) Unwrap() error { return f.err }

// Read reads a report, in memory that does not depend on its length. now bounds the dates. An error
// is a *Fault, and ends the reading: what was read before it is no report either.
//
// Text is never interpreted: a cell that begins like a formula is that text, and who prints it as
// CSV has to escape it.
func (p Profile) Read(r io.Reader, now time.Time) iter.Seq2[settlement.Line, error] {
	return func(yield func(settlement.Line, error) bool) {
		in := &reading{
			Profile: p, latest: now.Add(settlement.MaxAhead), sums: make(map[domain.Currency]*[3]domain.Sum), totalled: make(map[string]bool), recent: make(map[cells]int),
		}
		in.open(r)
		for {
			line, ok := in.next()
			if in.fault != nil {
				yield(settlement.Line{}, in.fault)
				return
			}
			if !ok || !yield(line, nil) {
				return
			}
		}
	}
}

// reading is a report being read.
type reading struct {
	Profile
	latest time.Time

	in      *bounded
	rows    *csv.Reader
	skipped int // lines of the file before those of rows
	header  []string
	table   Table
	columns map[string][]int // cells by member

	line  int // of the file: where the row under way begins
	row   []string
	lines int // of the report
	fault *Fault

	// What the totals are compared with, in the report's own signs: gross, fee, net.
	sums     map[domain.Currency]*[3]domain.Sum
	totalled map[string]bool // by label

	recent, earlier map[cells]int // lines of the file by their cells
}

// cells stands for all cells of a row: the beginning of their SHA-256.
type cells [16]byte

// refuse notes the first fault, of a cell where column is not negative.
func (in *reading) refuse(column int, format string, args ...any) {
	if in.fault != nil {
		return
	}
	f := &Fault{Line: in.line, Column: column + 1, Problem: fmt.Sprintf(format, args...)}
	if column >= 0 && column < len(in.header) {
		f.Field = in.header[column]
	}
	in.fault = f
}

// wrong refuses the cell of a member.
func (in *reading) wrong(member, format string, args ...any) {
	column := -1
	if at := in.columns[member]; len(at) > 0 {
		column = at[0]
	}
	in.refuse(column, format, args...)
}

// bounded lets one row take only so many bytes.
type bounded struct {
	*bufio.Reader
	left int
}

var errLong = fmt.Errorf("longer than %d bytes: is the delimiter another, or a quotation mark left open?", maxLine)

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLong
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// open finds the header.
func (in *reading) open(r io.Reader) {
	raw := bufio.NewReaderSize(r, maxLine)
	in.line = 1
	begin, _ := raw.Peek(3)
	switch marked := bytes.Equal(begin, []byte("\ufeff")); {
	case marked && in.Encoding != utf8Name:
		in.refuse(-1, "the file is UTF-8 by its byte order mark, and %s in the profile", in.Encoding)
		return
	case marked:
		_, _ = raw.Discard(len(begin))
	}
	if in.Encoding == windows1251Name {
		raw = bufio.NewReaderSize(charmap.Windows1251.NewDecoder().Reader(raw), maxLine)
	}
	missing := ""
	for in.line = 1; in.line <= in.Preamble+1; in.line++ {
		text, err := raw.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			in.unreadable(err)
			return
		}
		if len(text) == 0 {
			break
		}
		if bytes.ContainsRune(text, utf8.RuneError) {
			in.refuse(-1, "no header: it has bytes that are not %s", in.Encoding)
			return
		}
		not := in.isHeader(string(text))
		if not == "" {
			in.skipped, in.in = in.line, &bounded{Reader: raw}
			in.rows = csv.NewReader(in.in)
			in.rows.Comma, in.rows.FieldsPerRecord, in.rows.ReuseRecord = rune(in.Delimiter[0]), -1, true
			return
		}
		if missing == "" || len(not) < len(missing) { // of the line that is most like a header
			missing = not
		}
	}
	in.line = max(in.line-1, 1)
	in.refuse(-1, "no header: %s", cmp.Or(missing, "the file is empty"))
}

// isHeader takes a line as the header, or says why it is none.
func (in *reading) isHeader(text string) (not string) {
	rows := csv.NewReader(strings.NewReader(text))
	rows.Comma = rune(in.Delimiter[0])
	header, err := rows.Read()
	if err != nil {
		return "it is no row of cells"
	}
	for i := range header {
		header[i] = strings.TrimSpace(header[i])
	}
	for _, t := range in.Tables {
		columns, missing := t.find(header)
		if len(missing) == 0 {
			in.header, in.table, in.columns = header, t, columns
			return ""
		}
		if why := fmt.Sprintf("the columns %q are missing, and there are %d others: is the delimiter %q?", missing, len(header), in.Delimiter); not == "" || len(why) < len(not) {
			not = why
		}
	}
	return not
}

// find says where the columns stand in a header, and which are missing there or stand there twice.
func (t Table) find(header []string) (columns map[string][]int, missing []string) {
	columns = make(map[string][]int)
	for _, member := range columnNames() {
		names := t.Columns[member]
		for _, name := range names {
			at := slices.Index(header, name)
			if at >= 0 && !slices.Contains(header[at+1:], name) {
				columns[member] = append(columns[member], at)
			}
		}
		all := len(columns[member]) == len(names)
		if !all && !slices.Contains(t.Optional, member) && (len(columns[member]) == 0 || slices.Contains(amounts(), member)) {
			missing = append(missing, strings.Join(names, " / "))
		}
	}
	slices.Sort(missing)
	return columns, missing
}

// unreadable says why the file could not be read on.
func (in *reading) unreadable(err error) {
	parse, ok := errors.AsType[*csv.ParseError](err)
	switch {
	case ok:
		in.line = in.skipped + parse.StartLine
		in.refuse(len(in.row), "a quotation mark is left open, or stands inside a text: the file is truncated, or is no CSV")
	case errors.Is(err, errLong), errors.Is(err, bufio.ErrBufferFull):
		in.refuse(-1, "%v", errLong)
	default:
		in.refuse(-1, "the file cannot be read: %v", err)
		in.fault.err = err
	}
}

// next reads the next line of the report; not ok at the end or a fault.
func (in *reading) next() (line settlement.Line, ok bool) {
	if in.fault == nil {
		in.in.left = maxLine + readAhead // of all rows until the next line
	}
	for in.fault == nil {
		row, err := in.rows.Read()
		in.row = row
		if errors.Is(err, io.EOF) {
			in.missingTotal()
			return line, false
		}
		if err != nil {
			in.line = max(in.line, in.skipped) + 1
			in.unreadable(err)
			return line, false
		}
		at, _ := in.rows.FieldPos(0)
		in.line = in.skipped + at
		for i, cell := range row {
			if strings.ContainsRune(cell, utf8.RuneError) {
				in.refuse(i, "bytes that are not %s", in.Encoding)
				return line, false
			}
			row[i] = strings.TrimSpace(cell)
		}
		switch {
		case strings.Join(row, "") == "", in.total(), len(in.totalled) > 0 && len(row) < len(in.header):
		case len(in.totalled) > 0:
			in.refuse(-1, "a line behind the total")
		case len(row) != len(in.header):
			in.refuse(-1, "%d cells, and the header has %d: the file is truncated, or the delimiter is another than %q", len(row), len(in.header), in.Delimiter)
		default:
			line = in.read()
			return line, in.fault == nil
		}
	}
	return line, false
}

// read reads the row as a line.
func (in *reading) read() settlement.Line {
	in.lines++
	l := settlement.Line{
		Number: in.lines, Kind: in.table.Kind, Currency: in.table.Currency,
		PaymentID: in.id(colPayment), RefundID: in.id(colRefund), Reference: in.text(colReference), SettledOn: in.date(),
	}
	if len(l.Reference) > domain.MaxReference {
		in.wrong(colReference, "longer than %d bytes", domain.MaxReference)
	}
	value := in.text(colKind)
	if l.Kind == "" {
		if l.Kind = in.Kinds[value]; l.Kind == "" {
			in.wrong(colKind, "%.40q is no kind that the profile knows", value)
		}
	}
	if l.Currency == "" {
		l.Currency = domain.Currency(strings.ToUpper(in.text(colCurrency)))
		if !l.Currency.TwoMinorDigits() {
			in.wrong(colCurrency, "%.40q is no currency whose amounts have two digits behind the point", l.Currency)
		}
	}
	in.money(&l, slices.Contains(in.Reversals, value))
	if member := l.Check(); member != "" {
		in.wrong(member, "cannot be recorded: it is too large, or has characters that are not printable")
	}
	in.repeated(l)
	return l
}

// money reads the amounts of a line.
func (in *reading) money(l *settlement.Line, reversal bool) {
	of := [3]domain.Sum{}
	for i, member := range amounts() {
		for _, at := range in.columns[member] {
			sum, problem := in.amount(in.row[at])
			if problem != "" {
				in.refuse(at, "%s", problem)
				return
			}
			of[i] = of[i].Add(sum)
		}
	}
	if in.sums[l.Currency] == nil {
		in.sums[l.Currency] = new([3]domain.Sum)
	}
	for i, sum := range of {
		in.sums[l.Currency][i] = in.sums[l.Currency][i].Add(sum)
	}
	side, says := 1, of[0]
	if reversal {
		side = -1
	}
	if slices.Contains(in.Unsigned, l.Kind) {
		of[0], of[2] = of[0].Neg(), of[2].Neg()
	}
	l.Gross, l.Fee, l.Net = of[0], of[1], of[2]
	switch hasFee, hasNet := in.columns[colFee] != nil, in.columns[colNet] != nil; {
	case !hasNet:
		l.Net = l.Gross.Add(l.Fee.Neg())
	case !hasFee:
		l.Fee = l.Gross.Add(l.Net.Neg())
	}
	none := domain.Sum{}
	side *= l.Gross.Sign()
	switch left := l.Gross.Add(l.Fee.Neg()); {
	case left != l.Net:
		in.wrong(colNet, "gross %s less fee %s is %s, and not %s", l.Gross, l.Fee, left, l.Net)
	case l.Gross == none && l.Fee == none:
		in.wrong(colGross, "the line moves no money")
	case reversal && (l.Kind == settlement.KindPayment && side <= 0 || l.Kind == settlement.KindRefund && side >= 0):
		in.wrong(colGross, "%s for a %s of a kind in reversals, whose sign in the report is the other than that of %ss", says, l.Kind, l.Kind)
	case l.Kind == settlement.KindPayment && side <= 0:
		in.wrong(colGross, "%s for a payment, which is above zero", l.Gross)
	case l.Kind == settlement.KindRefund && side >= 0:
		in.wrong(colGross, "%s for a refund, which is below zero", l.Gross)
	case l.Kind == settlement.KindFee: // whichever column it stands in
		l.Gross, l.Fee = none, l.Net.Neg()
	}
}

// repeated refuses a line that is the same as one before it. Lines that name nothing may be the same.
func (in *reading) repeated(l settlement.Line) {
	if in.fault != nil || l.PaymentID+l.RefundID+l.Reference == "" {
		return
	}
	sum := sha256.Sum256([]byte(strings.Join(in.row, "\x00")))
	row := cells(sum[:16])
	for _, lines := range []map[cells]int{in.recent, in.earlier} {
		if line, ok := lines[row]; ok {
			in.refuse(-1, "the same as line %d", line)
			return
		}
	}
	if len(in.recent) == remembered {
		in.recent, in.earlier = make(map[cells]int), in.recent
	}
	in.recent[row] = in.line
}

// text is the first text in the columns of a member.
func (in *reading) text(member string) string {
	for _, at := range in.columns[member] {
		if domain.HasControl(in.row[at]) {
			in.refuse(at, "a control character")
		}
		if in.row[at] != "" {
			return in.row[at]
		}
	}
	return ""
}

func (in *reading) id(member string) string {
	text := in.text(member)
	if _, ok := domain.ParseID(text); !ok && text != "" {
		in.wrong(member, "%.40q is no id of ours: want 26 capital letters and digits", text)
	}
	return text
}

func (in *reading) date() string {
	text := in.text(colSettledOn)
	for _, form := range in.Dates {
		made, _ := layout(form)
		day, err := time.Parse(made, text)
		if err != nil {
			continue
		}
		if day.Format(time.DateOnly) < settlement.Earliest || day.After(in.latest) {
			in.wrong(colSettledOn, "%.40q is before %.4s or more than %d days ahead", text, settlement.Earliest, settlement.MaxAhead/(24*time.Hour))
		}
		return day.Format(time.DateOnly)
	}
	in.wrong(colSettledOn, "%.40q is no date as %s", text, strings.Join(in.Dates, " or "))
	return ""
}

// separates reports whether a character may stand between groups of three digits.
func (p Profile) separates(r rune) bool { return strings.ContainsRune(p.ThousandsSeparators, r) }

// amount reads an amount, or says why it is none. An empty cell is zero.
func (p Profile) amount(cell string) (sum domain.Sum, problem string) {
	if cell == "" {
		return sum, ""
	}
	digits := strings.TrimPrefix(cell, "+")
	minus := ""
	for _, sign := range []string{"-", "\u2212"} {
		if rest, ok := strings.CutPrefix(cell, sign); ok {
			digits, minus = rest, "-"
		}
	}
	digits = strings.TrimSpace(digits) // a blank may stand behind the sign
	whole, fraction, ok := digits, "00", true
	if i := strings.IndexAny(digits, p.DecimalMarks); i >= 0 {
		whole, fraction = digits[:i], digits[i+1:]
		ok = fraction != ""
	}
	groups, separated := strings.FieldsFunc(whole, p.separates), utf8.RuneCountInString(whole)
	for i, group := range groups {
		ok = ok && (len(groups) == 1 || len(group) == 3 || i == 0 && len(group) < 3)
	}
	whole = strings.Join(groups, "")
	ok = ok && separated == len(whole)+len(groups)-1 // or a group is empty
	switch {
	case !ok || whole == "" || strings.Trim(whole+fraction, "0123456789") != "":
		return sum, fmt.Sprintf("%.40q is no amount as the profile writes them, such as 1234%c50", cell, p.DecimalMarks[0])
	case len(fraction) > 2:
		return sum, fmt.Sprintf("%.40q has more digits than its currency", cell)
	case len(whole) > 15:
		return sum, fmt.Sprintf("%.40q is too large", cell)
	}
	if sum.UnmarshalText([]byte(minus+whole+"."+(fraction + "0")[:2])) != nil {
		return sum, fmt.Sprintf("%.40q is no amount: it begins with a zero", cell)
	}
	return sum, ""
}

// total reports whether the row is a total, and compares it.
func (in *reading) total() bool {
	for _, t := range in.table.Totals {
		rest, ok := strings.CutPrefix(in.row[0], t.Label)
		if !ok {
			continue
		}
		in.totalled[t.Label] = true
		for _, of := range t.Of {
			at, text := 0, strings.TrimSpace(rest)
			if text == "" && len(in.columns[of]) == 1 && len(in.row) == len(in.header) {
				at = in.columns[of][0]
				text = in.row[at]
			}
			in.compare(at, of, text)
		}
		return true
	}
	return false
}

// compare compares a total, with or without its currency, with the lines.
func (in *reading) compare(at int, of, text string) {
	if of == ofLines {
		if want := fmt.Sprint(in.lines); strings.Join(strings.FieldsFunc(text, in.separates), "") != want {
			in.refuse(at, "the total says %.40q lines, and there are %s", text, want)
		}
		return
	}
	value, currency := text, domain.Currency("")
	if i := strings.LastIndexByte(text, ' '); i >= 0 && domain.Currency(text[i+1:]).TwoMinorDigits() {
		value, currency = strings.TrimSpace(text[:i]), domain.Currency(text[i+1:])
	}
	if currency == "" && len(in.sums) > 1 {
		in.refuse(at, "the total has no currency, and the lines have several")
		return
	}
	total, problem := in.amount(value)
	if problem != "" {
		in.refuse(at, "%s", problem)
		return
	}
	var sum domain.Sum
	for c, sums := range in.sums {
		if currency == "" || c == currency {
			sum = sums[slices.Index(amounts(), of)]
		}
	}
	if total != sum {
		in.refuse(at, "the total says %s, and the lines add up to %s", total, sum)
	}
}

// missingTotal refuses a report that ends without its totals. One without lines may.
func (in *reading) missingTotal() {
	for _, t := range in.table.Totals {
		if !t.Optional && !in.totalled[t.Label] && in.lines > 0 {
			in.refuse(-1, "behind this line the total %q is missing: the file is truncated, or the profile is another's", t.Label)
		}
	}
}
