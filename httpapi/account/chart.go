package account

import (
	"math"
	"strings"
	"unicode/utf8"

	"payledger/domain"
	"payledger/httpapi/merchant"
	"payledger/httpapi/ui"
	"payledger/httpapi/wire"
)

// dailyChart is a chart of two bars for each day, which the template "chart" draws as SVG. Everything
// in it bears the name of a class and no colours, which are the stylesheet's: so it follows
// the reader's scheme, and the policy of the pages forbids styles within them.
type dailyChart struct {
	ID, Title, About         string // for those who do not see it
	Width, Height            float64
	Left, Right, Top, Bottom float64 // of the bars
	Amounts, Days            []tick
	Bars                     []bar
}

type tick struct {
	At    float64
	Label string
}

type bar struct {
	Class               string
	X, Y, Width, Height float64
}

// charWidth is about as wide as a digit of the stylesheet's font for charts.
const charWidth = 7

// chart draws the days of a currency, of which it names so many. Its text keeps its size only where
// it is shown as wide, so there is one for small screens and one for large.
func (p overviewPage) chart(c wire.CurrencyOverview, id string, width, height float64, labels int) *dailyChart {
	chart := &dailyChart{
		ID: id, Title: p.T("overview.per_day"), Width: width, Height: height, Top: 12, Right: width - 8, Bottom: height - 26,
		About: p.T("overview.chart", "Paid", p.Sum(c.Paid.Sum, c.Currency), "Refunded", p.Sum(c.Refunded.Sum, c.Currency)),
	}
	var largest domain.Amount
	for _, d := range c.Days {
		largest = max(largest, amountOf(d.Paid.Sum), amountOf(d.Refunded.Sum))
	}
	step := niceStep(largest)
	most := max(step, (largest+step-1)/step*step)
	y := func(a domain.Amount) float64 { return chart.Bottom - (chart.Bottom-chart.Top)*float64(a)/float64(most) }
	for at := domain.Amount(0); at <= most; at += step {
		t := tick{tenths(y(at)), scaleLabel(p.Locale, at, c.Currency)}
		chart.Amounts = append(chart.Amounts, t)
		chart.Left = max(chart.Left, float64(charWidth*(utf8.RuneCountInString(t.Label)+2)))
	}
	wide, every := (chart.Right-chart.Left)/float64(len(c.Days)), max(1, (len(c.Days)+labels-1)/labels)
	for i, d := range c.Days {
		middle := chart.Left + wide*(float64(i)+0.5)
		if i%every == 0 {
			day, _ := merchant.ParseDay(d.Date) // the API writes it so
			chart.Days = append(chart.Days, tick{tenths(middle), dayLabel(p.Locale, p.Who.Calendar().Start(day), d.Date[:len("2026")])})
		}
		chart.add("chart-paid", middle-0.39*wide, 0.36*wide, y(amountOf(d.Paid.Sum)))
		chart.add("chart-back", middle+0.03*wide, 0.36*wide, y(amountOf(d.Refunded.Sum)))
	}
	return chart
}

// add adds a bar up to a height, which is seen however low it is. None is drawn for nothing.
func (c *dailyChart) add(class string, left, width, top float64) {
	if top == c.Bottom {
		return
	}
	top = min(top, c.Bottom-1)
	c.Bars = append(c.Bars, bar{class, tenths(left), tenths(top), max(1, tenths(width)), tenths(c.Bottom - top)})
}

func tenths(x float64) float64 { return math.Round(10*x) / 10 }

// dayLabel is a day in figures without its year.
func dayLabel(l *ui.Locale, day domain.Instant, year string) string {
	return strings.Trim(strings.Replace(l.ShortDay(day), year, "", 1), " .\u00a0")
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

// amountOf is a sum for a chart, capped at 92 quadrillions.
func amountOf(s domain.Sum) domain.Amount {
	if s.Hi != 0 || s.Lo < 0 || s.Lo > 1<<62 {
		return 1 << 62
	}
	return domain.Amount(s.Lo)
}
