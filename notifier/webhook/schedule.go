package webhook

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"payledger/domain"
)

// The bounds of a schedule.
const (
	maxTries = 64
	maxWait  = 30 * 24 * time.Hour

	// jitter is how much of a wait is added to it at most.
	jitter = 0.25
)

// Schedule lists the waits before each try of a notification: the first before the first try, the
// next after the first one failed, and so on. When none is left, the notification is abandoned
// (given_up).
type Schedule []time.Duration

// DefaultSchedule is twelve tries over some 76 hours.
func DefaultSchedule() Schedule {
	return Schedule{
		0, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
}

// ParseSchedule reads waits separated by commas, such as "0s,5s,30s,2m".
func ParseSchedule(text string) (Schedule, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("the retry schedule is empty: list the waits before each try, such as 0s,5s,30s,2m")
	}
	items := strings.Split(text, ",")
	if len(items) > maxTries {
		return nil, fmt.Errorf("the retry schedule has %d waits: at most %d are allowed", len(items), maxTries)
	}
	s := make(Schedule, 0, len(items))
	for i, item := range items {
		wait, err := time.ParseDuration(strings.TrimSpace(item))
		switch {
		case err != nil:
			return nil, fmt.Errorf("the retry schedule, wait %d: %q is not a duration such as 30s, 2m or 5h", i+1, item)
		case wait < 0 || wait > maxWait:
			return nil, fmt.Errorf("the retry schedule, wait %d: %q is not between 0s and 720h", i+1, item)
		}
		s = append(s, wait)
	}
	return s, nil
}

// String writes the schedule as ParseSchedule reads it.
func (s Schedule) String() string {
	items := make([]string, len(s))
	for i, wait := range s {
		items[i] = wait.String()
	}
	return strings.Join(items, ",")
}

// Next returns the wait before the next try, after a number of attempts, and
// whether there is one. random, from 0 up to 1, sets the jitter: up to
// a quarter more than the list says. The wait is never shorter than
// retryAfter, of which domain.MaxRetryAfter counts at most.
func (s Schedule) Next(attempts int, random float64, retryAfter time.Duration) (wait time.Duration, more bool) {
	if attempts < 0 || attempts >= len(s) {
		return 0, false
	}
	wait = s[attempts]
	wait += time.Duration(float64(wait) * jitter * min(max(random, 0), 1))
	return max(wait, min(retryAfter, domain.MaxRetryAfter)), true
}
