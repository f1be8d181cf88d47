package account

import (
	"bytes"
	"fmt"
	"html/template"
	"strconv"
	"strings"

	charts "github.com/wcharczuk/go-chart/v2"

	"payledger/domain"
	"payledger/httpapi/ui"
)

// dailyChart is a chart of two bars for each day, drawn as SVG. Everything in it bears the
// name of a class and no colours, which are the stylesheet's: so it follows
// the reader's scheme, and the policy of the pages forbids styles within them.
type dailyChart struct {
	Title, About string // for those who do not see it
	Days         []domain.Instant
	Paid, Back   []domain.Amount // of each day
	Currency     domain.Currency
}

// svg draws the chart for a width. Its text keeps its size only where it is
// shown as wide, so there is one for small screens and one for large.
func (c dailyChart) svg(l *ui.Locale, width, height, labels int, id string) (template.HTML, error) {
	class := func(name string) charts.Style { return charts.Style{ClassName: name} }
	var largest domain.Amount
	for i := range c.Days {
		largest = max(largest, c.Paid[i], c.Back[i])
	}
	step := niceStep(largest)
	amounts := []charts.Tick{}
	for at := domain.Amount(0); ; at += step {
		amounts = append(amounts, charts.Tick{Value: float64(at), Label: template.HTMLEscapeString(scaleLabel(l, at, c.Currency))})
		if at >= largest {
			break
		}
	}
	days := []charts.Tick{{Value: -0.5}}
	every := max(1, (len(c.Days)+labels-1)/labels)
	for i, day := range c.Days {
		if i%every == 0 {
			days = append(days, charts.Tick{Value: float64(i), Label: template.HTMLEscapeString(dayLabel(l, day))})
		}
	}
	days = append(days, charts.Tick{Value: float64(len(c.Days)) - 0.5})
	picture := charts.Chart{
		Width: width, Height: height, Background: charts.Style{ClassName: "chart-ground", Padding: charts.NewBox(8, 8, 8, 8)}, Canvas: class("chart-ground"),
		XAxis: charts.XAxis{
			Style: class("chart-axis"), TickStyle: class("chart-axis"), Ticks: days, GridMajorStyle: charts.Hidden(), GridMinorStyle: charts.Hidden(),
			Range: &charts.ContinuousRange{Min: -0.5, Max: float64(len(c.Days)) - 0.5},
		},
		YAxis: charts.YAxis{
			AxisType: charts.YAxisSecondary, // which is at the left
			Style:    class("chart-axis"), TickStyle: class("chart-axis"), Ticks: amounts, Zero: charts.GridLine{Style: charts.Hidden()},
			GridMajorStyle: charts.Hidden(), GridMinorStyle: charts.Hidden(),
			Range: &charts.ContinuousRange{Min: 0, Max: amounts[len(amounts)-1].Value},
		},
		YAxisSecondary: charts.YAxis{Style: charts.Hidden()},
		Series:         []charts.Series{grid{amounts[1:]}, bars{"chart-paid", -0.21, c.Paid}, bars{"chart-back", 0.21, c.Back}},
	}
	var out bytes.Buffer
	if err := picture.Render(charts.SVGWithCSS("", ""), &out); err != nil {
		return "", fmt.Errorf("drawing a chart: %w", err)
	}
	head, body, _ := strings.Cut(out.String(), ">")
	return template.HTML(head + ` role="img" aria-labelledby="` + id + `-title ` + id + `-about"><title id="` + id + `-title">` + //nolint:gosec // what is not a number is escaped
		template.HTMLEscapeString(c.Title) + `</title><desc id="` + id + `-about">` + template.HTMLEscapeString(c.About) + `</desc>` + body), nil
}

// dayLabel is a day in figures without its year.
func dayLabel(l *ui.Locale, day domain.Instant) string {
	return strings.Trim(strings.Replace(l.ShortDay(day), strconv.Itoa(day.Time().Year()), "", 1), " .\u00a0")
}

// scaleLabel is an amount without its minor units where there are none.
func scaleLabel(l *ui.Locale, a domain.Amount, c domain.Currency) string {
	text := l.Amount(a, c)
	if i := strings.LastIndexAny(text, ".,"); i >= 0 && a%100 == 0 {
		return text[:i] + text[i+len(".00"):]
	}
	return text
}

// niceStep divides the way to an amount into two to five steps of a round
// number each.
func niceStep(largest domain.Amount) domain.Amount {
	step := domain.Amount(100)
	for {
		for _, f := range []domain.Amount{1, 2, 5} {
			if (largest+4)/5 <= f*step {
				return f * step
			}
		}
		step *= 10
	}
}

// grid are the lines across a chart, which the library's own give no class.
type grid struct{ at []charts.Tick }

// GetName implements charts.Series.
func (g grid) GetName() string { return "grid" }

// GetYAxis implements charts.Series.
func (g grid) GetYAxis() charts.YAxisType { return charts.YAxisPrimary }

// GetStyle implements charts.Series.
func (g grid) GetStyle() charts.Style { return charts.Style{ClassName: "chart-grid"} }

// Validate implements charts.Series.
func (g grid) Validate() error { return nil }

// Render implements charts.Series.
func (g grid) Render(r charts.Renderer, box charts.Box, _, y charts.Range, _ charts.Style) {
	r.SetClassName("chart-grid")
	for _, t := range g.at {
		at := box.Bottom - y.Translate(t.Value)
		r.MoveTo(box.Left, at)
		r.LineTo(box.Right, at)
		r.Stroke()
	}
	r.ResetStyle()
}

// bars are the bars of one kind, next to the middle of their day.
type bars struct {
	class   string
	beside  float64 // in days
	heights []domain.Amount
}

// barWidth is that of a bar in days.
const barWidth = 0.36

// GetName implements charts.Series.
func (b bars) GetName() string { return b.class }

// GetYAxis implements charts.Series.
func (b bars) GetYAxis() charts.YAxisType { return charts.YAxisPrimary }

// GetStyle implements charts.Series.
func (b bars) GetStyle() charts.Style { return charts.Style{ClassName: b.class} }

// Validate implements charts.Series.
func (b bars) Validate() error { return nil }

// Render implements charts.Series.
func (b bars) Render(r charts.Renderer, box charts.Box, x, y charts.Range, _ charts.Style) {
	for i, h := range b.heights {
		if h == 0 {
			continue
		}
		middle := float64(i) + b.beside
		bar := charts.Box{
			Left: box.Left + x.Translate(middle-barWidth/2), Right: box.Left + x.Translate(middle+barWidth/2),
			Top: box.Bottom - max(1, y.Translate(float64(h))), Bottom: box.Bottom,
		}
		bar.Right = max(bar.Right, bar.Left+1)
		charts.Draw.Box(r, bar, b.GetStyle())
	}
}
