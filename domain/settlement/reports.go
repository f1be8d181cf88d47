package settlement

import (
	"errors"
	"slices"
	"strings"
	"time"

	"payledger/domain"
)

// Bearer is who bears a provider's fees.
type Bearer string

// The bearers. Fees that the merchant bears are taken from what it is owed.
const (
	ByOperator Bearer = "operator"
	ByMerchant Bearer = "merchant"
)

// Valid reports whether b is one of them.
func (b Bearer) Valid() bool { return b == ByOperator || b == ByMerchant }

const maxReport = 64

// ValidReport reports whether a text can be the id of a report: 1 to 64 of A-Z, a-z, 0-9, dot,
// dash and underscore.
func ValidReport(s string) bool {
	return s != "" && len(s) <= maxReport && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// ID names a report of any route: route, colon, the report's own id.
func ID(route, report string) string { return route + ":" + report }

// ParseID reads what ID writes.
func ParseID(id string) (route, report string, ok bool) {
	route, report, ok = strings.Cut(id, ":")
	return route, report, ok && domain.ValidRoute(route) && ValidReport(report)
}

// Report is a report as it is in the log, without its lines.
type Report struct {
	Route      string        `json:"route"`
	Report     string        `json:"report"` // its id at the provider
	SHA256     domain.Digest `json:"sha256"` // of the file
	FeesPaidBy Bearer        `json:"fees_paid_by"`
	Summary    Summary       `json:"summary"`
}

// Reports are the reports of a route, in the order of their imports. The lines of one are recorded
// before the next is opened, so that no two can settle the same payment.
type Reports struct {
	Route string
	All   []Report
	Open  bool // lines of the last one are to come
}

// Find finds a report by its id.
func (r Reports) Find(report string) (Report, bool) {
	return domain.Find(r.All, func(one Report) bool { return one.Report == report })
}

// ReportsCommand is a command on the reports of a route.
type ReportsCommand interface {
	decide(Reports) (domain.Event, error)
}

// OpenReport begins to record a report. It is again the same file, or the one whose lines are being
// recorded, where there is nothing to do. The same file read as other lines is another report.
type OpenReport struct {
	Report
	At domain.Instant
}

// CloseReport says that all lines of the open report are recorded; Recorded are their totals.
type CloseReport struct {
	Report   string
	Recorded Summary
}

// Decide returns the event that a command leads to, nil if there is nothing to record.
func (r Reports) Decide(c ReportsCommand) (domain.Event, error) { return c.decide(r) }

func (c OpenReport) decide(r Reports) (domain.Event, error) {
	for _, one := range r.All {
		if one.Report == c.Report.Report && one.SHA256 == c.SHA256 && one.Summary.same(c.Summary) {
			return nil, nil
		}
		if one.Report == c.Report.Report || one.SHA256 == c.SHA256 {
			return nil, &domain.Refusal{Code: domain.SettlementDiffers}
		}
	}
	if r.Open {
		return nil, &domain.Refusal{Code: domain.SettlementOpen}
	}
	if c.Route != r.Route || !ValidReport(c.Report.Report) || !c.FeesPaidBy.Valid() || !c.Summary.Valid() || !c.Summary.Timely(c.At) {
		return nil, errors.New("the report's route, id, bearer of fees, sums or days are not possible")
	}
	return ReportOpened{c.Report}, nil
}

func (c CloseReport) decide(r Reports) (domain.Event, error) {
	one, ok := r.Find(c.Report)
	switch {
	case !ok:
		return nil, &domain.Refusal{Code: domain.SettlementNotFound}
	case !r.Open || r.All[len(r.All)-1].Report != c.Report:
		return nil, nil
	case !one.Summary.same(c.Recorded):
		return nil, &domain.Refusal{Code: domain.SettlementDiffers}
	}
	return ReportClosed{Route: r.Route, Report: c.Report}, nil
}

// Valid reports whether the totals are those of some lines, at least one.
func (s Summary) Valid() bool {
	lines := 0
	for i, t := range s.Totals {
		if t.Lines < 1 || !t.Currency.TwoMinorDigits() || t.Net != t.Gross.Add(t.Fee.Neg()) || i > 0 && s.Totals[i-1].Currency >= t.Currency {
			return false
		}
		lines += t.Lines
	}
	return lines > 0 && lines == s.Lines && validDate(s.From) && validDate(s.To) && s.From <= s.To
}

// same reports whether two summaries are of the same number of lines, sums and days.
func (s Summary) same(o Summary) bool {
	return s.Lines == o.Lines && s.From == o.From && s.To == o.To && slices.Equal(s.Totals, o.Totals)
}

// The days of a report.
const (
	Earliest = "2000-01-01"
	MaxAhead = 31 * 24 * time.Hour // a report may name the day on which money is going to arrive
)

// Timely reports whether a report that is recorded at an instant can be of these days.
func (s Summary) Timely(at domain.Instant) bool {
	return s.From >= Earliest && s.To <= at.Add(MaxAhead).String()[:len(Earliest)]
}

// Evolve applies an event. Others change nothing.
func (r Reports) Evolve(e domain.Event) Reports {
	switch e := e.(type) {
	case ReportOpened:
		r.All, r.Open = append(slices.Clip(r.All), e.Report), true
	case ReportClosed:
		r.Open = false
	}
	return r
}

// Redecide checks an event as domain.Payment.Redecide does, recorded at an instant. recorded are the
// totals of the lines recorded of the open report.
func (r Reports) Redecide(e domain.Event, at domain.Instant, recorded Summary) error {
	var c ReportsCommand
	switch e := e.(type) {
	case ReportOpened:
		c = OpenReport{e.Report, at}
	case ReportClosed:
		c = CloseReport{e.Report, recorded}
	default:
		return errors.New("it is no event of a route's reports")
	}
	got, err := r.Decide(c)
	return domain.SameEvent(got, err, e, "route "+r.Route, "")
}
