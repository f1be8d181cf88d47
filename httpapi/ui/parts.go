package ui

import (
	"fmt"
	"html/template"

	"payledger/domain"
)

// Time is a <time> with the moment in it.
func (l *Locale) Time(i domain.Instant) template.HTML { return l.timeElement(i, "moment", l.Moment(i)) }

// ShortTime is a <time> with a short form of the moment.
func (l *Locale) ShortTime(i domain.Instant) template.HTML {
	return l.timeElement(i, "short", l.ShortMoment(i))
}

// NearTime is a <time> with the moment without its year in it.
func (l *Locale) NearTime(i domain.Instant) template.HTML { return l.timeElement(i, "near", l.Near(i)) }

func (l *Locale) timeElement(i domain.Instant, style, text string) template.HTML {
	with := `data-local="` + style + `"`
	if l.zone != nil {
		with = `title="` + l.Moment(i) + `"`
	}
	return template.HTML(`<time datetime="` + i.String() + `" ` + with + `>` + text + `</time>`) //nolint:gosec // an instant and words of ours
}

// Badge shows a status: its word "status.<status>", or itself where there is
// none, in the tone that goes with it.
func (l *Locale) Badge(status any) template.HTML {
	s := fmt.Sprint(status)
	text := s
	if id := "status." + s; l.Has(id) {
		text = l.T(id)
	}
	return l.Tag(tone(s), text)
}

// Tag is a short text in one of the tones good, bad, wait and quiet.
func (l *Locale) Tag(tone, text string) template.HTML {
	return template.HTML(`<span class="badge ` + template.HTMLEscapeString(tone) + `">` + //nolint:gosec // escaped
		template.HTMLEscapeString(text) + `</span>`)
}

func tone(status string) string {
	switch status {
	case "paid", "succeeded", "delivered", "enabled", "live":
		return "good"
	case "failed", "given_up", "parked":
		return "bad"
	case "created", "awaiting_payment", "pending", "held", "unconfirmed":
		return "wait"
	}
	return "quiet"
}

// Copyable is an id with a button that copies it; the button is there only
// with script.
func (l *Locale) Copyable(text any) template.HTML {
	id := template.HTMLEscapeString(fmt.Sprint(text))
	label := template.HTMLEscapeString(l.T("ui.copy"))
	return template.HTML(`<span class="copyable"><code>` + id + `</code><button type="button" class="copy" hidden data-copy="` + //nolint:gosec // escaped
		id + `" aria-label="` + label + ` ` + id + `" title="` + label + `"></button></span>`)
}
