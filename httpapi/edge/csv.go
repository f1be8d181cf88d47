package edge

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// CSVType is the media type of CSV.
const CSVType = "text/csv"

// csvRows is how many rows of a CSV answer are read and written at once.
const csvRows = 1000

// AsCSV reports whether a list was asked for as CSV.
func (x *Exchange) AsCSV() bool {
	x.Header().Add("Vary", "Accept")
	return Prefers(x.Request.Header["Accept"], CSVType, "application/json")
}

// Table is a list that is written as CSV.
type Table struct {
	Columns []string
	Limit   int // rows at most; 0: all there are

	// Spreadsheet says how the reader's spreadsheet writes figures. nil: as RFC 4180
	// says, with decimal points, for programs.
	Spreadsheet *Spreadsheet

	// Next returns the rows that follow, at most limit. more is false when they
	// are the last.
	Next func(ctx context.Context, limit int) (rows [][]string, more bool, err error)

	// Recheck returns an error when the caller may not read on. It is asked
	// before each part but the first.
	Recheck func(context.Context) error
}

// Spreadsheet is the form of CSV that Excel opens as a table by a double click: UTF-8
// with a byte order mark, and the separator and the decimal mark of the reader's language.
type Spreadsheet struct {
	Separator rune
	Decimal   string
	Amounts   []string // the columns with decimal points
}

// row appends a row of cells in the table's form.
func (t Table) row(dst []byte, cells []string) ([]byte, error) {
	if t.Spreadsheet == nil {
		return AppendCSV(dst, cells...)
	}
	cells = slices.Clone(cells)
	for i, column := range t.Columns {
		if slices.Contains(t.Spreadsheet.Amounts, column) {
			cells[i] = strings.Replace(cells[i], ".", t.Spreadsheet.Decimal, 1)
		}
	}
	return appendRow(dst, t.Spreadsheet.Separator, cells)
}

// ReplyCSV answers a table. Each part has its own time, so that a long one
// ends with its last row.
func (x *Exchange) ReplyCSV(t Table) error {
	limit := csvRows
	if t.Limit > 0 {
		limit = t.Limit
	}
	rows, more, err := t.Next(x.Context(), limit)
	if err != nil {
		return err
	}
	out := x.Stream(CSVType + "; charset=utf-8; header=present")
	var body []byte
	if t.Spreadsheet != nil {
		body = append(body, "\ufeff"...)
	}
	body, err = t.row(body, t.Columns)
	for err == nil {
		for _, row := range rows {
			if body, err = t.row(body, row); err != nil {
				return err
			}
		}
		if _, err := out.Write(body); err != nil {
			return err
		}
		if !more || t.Limit > 0 || x.Request.Method == http.MethodHead {
			return out.Flush()
		}
		body = body[:0]
		x.renew(maxTime)
		if err = t.Recheck(x.Context()); err == nil {
			rows, more, err = t.Next(x.Context(), limit)
		}
	}
	return err
}

// Accepts reports whether the lines of Accept or Accept-Encoding name a media type or an encoding, and
// not only to refuse it with a weight of 0 (RFC 9110, section 12.4.2).
func Accepts(lines []string, what string) bool { return weight(lines, what) > 0 }

// Prefers reports whether the lines of Accept name a media type with more weight than the usual one
// (RFC 9110, section 12.5.1). */* names neither: clients add it to what they want.
func Prefers(lines []string, what, usual string) bool {
	return weight(lines, what) > weight(lines, usual)
}

// weight is that of a media type or an encoding, 0 where it is not named.
func weight(lines []string, what string) float64 {
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			name, parameters, _ := strings.Cut(part, ";")
			if strings.EqualFold(strings.TrimSpace(name), what) {
				_, text, _ := strings.Cut(strings.ToLower(parameters), "q=")
				q, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
				if err != nil {
					return 1
				}
				return q
			}
		}
	}
	return 0
}
