package docs

import (
	"embed"
	"strconv"
	"strings"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
)

// ReceiverFiles are the sample receivers, one file for each language.
//
//go:embed receivers/*.txt
var ReceiverFiles embed.FS

// Receivers are the languages there is a sample receiver in.
func Receivers() [][2]string {
	return [][2]string{{"javascript", "JavaScript"}, {"python", "Python"}, {"go", "Go"}, {"php", "PHP"}, {"java", "Java"}}
}

// SampleNotification is a body as the sender makes it.
const SampleNotification = `{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C6","type":"payment.paid","timestamp":"2026-11-20T10:19:02.400Z",
 "sequence":3,"position":88417,
 "data":{"id":"01M7W78FJBM8T4R7B5N0C1D2E3","status":"paid","amount":"1500.00","currency":"RUB",
  "description":"order-1042","payload":{"cart":7},"created_at":"2026-11-20T10:15:30.123Z"}}`

// webhookPage is the page for merchants who receive notifications that are tried after these waits.
func webhookPage(schedule []time.Duration) (about, error) {
	type row struct{ Kind, When, Final any }
	type try struct{ Number, Wait, Since any }
	type receiver struct {
		ID, Language, Code string
		Open               bool
	}
	var kinds []row
	for _, k := range domain.KindTypes() {
		kinds = append(kinds, row{k.Kind, k.When, k.Final && k.Event != ""})
	}
	var tries []try
	var since time.Duration
	for i, wait := range schedule {
		since += wait
		tries = append(tries, try{i + 1, spell(wait), spell(since)})
	}
	attempts := strconv.Itoa(len(tries)) + " attempts"
	if len(tries) == 1 {
		attempts = "1 attempt"
	}
	var samples []receiver
	for i, r := range Receivers() {
		code, err := ReceiverFiles.ReadFile("receivers/" + r[0] + ".txt")
		if err != nil {
			return about{}, err
		}
		samples = append(samples, receiver{r[0], r[1], strings.TrimSpace(string(code)), i == 0})
	}
	sql, err := ReceiverFiles.ReadFile("receivers/sql.txt")
	if err != nil {
		return about{}, err
	}
	return about{"webhooks.html", map[string]any{
		"Title": "Receiving webhooks", "Example": SampleNotification, "SQL": strings.TrimSpace(string(sql)),
		"Kinds": kinds, "Tries": tries, "Attempts": attempts, "Receivers": samples, "MaxEndpoints": projects.MaxEndpoints,
		"Timeout": spell(domain.AnswerTime), "MaxRetryAfter": spell(domain.MaxRetryAfter),
		"DisableAfter": spell(domain.MaxFailingTime), "Keep": spell(domain.KeepDeliveries),
		"Overlap": spell(projects.DefaultSecretOverlap), "MaxOverlap": spell(projects.MaxSecretOverlap),
	}}, nil
}

// spell writes a length of time for people: its two greatest units.
func spell(d time.Duration) string {
	if d < time.Second {
		return "at once"
	}
	var parts []string
	for _, u := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		n := d / u.size
		d %= u.size
		switch {
		case len(parts) == 2 || n == 0:
		case n == 1:
			parts = append(parts, "1 "+u.name)
		default:
			parts = append(parts, strconv.Itoa(int(n))+" "+u.name+"s")
		}
	}
	return strings.Join(parts, " ")
}
