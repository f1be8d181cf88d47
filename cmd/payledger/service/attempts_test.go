package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"payledger/domain"
	"payledger/notifier/connector"
)

func TestNotificationsNameTheirRefusals(t *testing.T) {
	t.Parallel()
	var answer error
	n := notifications{
		set: connector.NewSet(connector.Routes{Connectors: map[string]connector.Opened{
			"cards": {Type: "stripe", Connector: struct{ connector.Connector }{}}, "sandbox": {Type: "sandbox"},
		}}),
		judge: func(context.Context, string, http.Header, []byte) error { return answer },
	}
	if !n.Takes("cards") || n.Takes("sandbox") || n.Takes("nowhere") {
		t.Error("other routes take notifications")
	}
	away := errors.New("the provider is away")
	for _, c := range []struct {
		route  string
		answer error
		want   domain.Code // empty: the answer itself
	}{
		{"cards", nil, ""},
		{"cards", fmt.Errorf("checking: %w", connector.ErrForged), domain.NotificationForged},
		{"cards", fmt.Errorf("reading: %w", &connector.RefusedError{Reason: "malformed"}), domain.NotificationMalformed},
		{"cards", away, ""},
		{"sandbox", away, domain.RouteNotFound},
	} {
		answer = c.answer
		err := n.Notify(t.Context(), c.route, nil, nil)
		var refusal *domain.Refusal
		switch {
		case c.want == "" && !errors.Is(err, c.answer):
			t.Errorf("%s, %v: %v", c.route, c.answer, err)
		case c.want != "" && (!errors.As(err, &refusal) || refusal.Code != c.want):
			t.Errorf("%s, %v: %v, want %s", c.route, c.answer, err, c.want)
		}
	}
}
