package projects_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/domain/projects"
)

const hook = "https://shop.example.com/hooks"

func added(id string) projects.WebhookEndpointAdded {
	return projects.WebhookEndpointAdded{EndpointID: id, CreatedAt: 1000, URL: hook, Kinds: domain.FinalKinds(), KeyVersion: 1}
}

func add(id string) projects.AddEndpoint {
	return projects.AddEndpoint{At: 1000, EndpointID: id, URL: hook, KeyVersion: 1}
}

func TestDecideEndpoint(t *testing.T) {
	t.Parallel()
	one := append(registered(), added("we_1"))
	full := registered()
	for i := range projects.MaxEndpoints {
		full = append(full, added("we_"+strconv.Itoa(i)))
	}
	freed := append(slices.Clone(full), projects.WebhookEndpointRemoved{EndpointID: "we_0"})
	disabled := append(slices.Clone(one), projects.WebhookEndpointDisabled{At: 5, EndpointID: "we_1", Reason: projects.DisabledGone})
	notFound := &domain.Refusal{Code: domain.WebhookEndpointNotFound}
	field := func(name string, code domain.Code) domain.FieldErrors {
		return domain.FieldErrors{{Field: name, Code: code}}
	}
	with := func(change func(*projects.AddEndpoint)) projects.AddEndpoint {
		c := add("we_1")
		change(&c)
		return c
	}
	text := func(s string) *string { return &s }
	long := strings.Repeat("ж", projects.MaxEndpointDescription+1)
	for name, tt := range map[string]struct {
		given []domain.Event
		when  projects.ProjectCommand
		then  any // a domain.Event, an error, or nil
	}{
		"add":                         {registered(), add("we_1"), added("we_1")},
		"add to no project":           {nil, add("we_1"), &domain.Refusal{Code: domain.ProjectNotFound}},
		"remove of no project":        {nil, projects.RemoveEndpoint{EndpointID: "we_1"}, &domain.Refusal{Code: domain.ProjectNotFound}},
		"add an id that is taken":     {one, add("we_1"), nil},
		"add once more for a request": {append(registered(), added("we_01M7W78FJBM8T4R7B5N0C1D2E3")), add("we_01M7W78FJCM8T4R7B5N0C1D2E3"), nil},
		"add for another request":     {append(registered(), added("we_01M7W78FJBM8T4R7B5N0C1D2E3")), add("we_01M7W78FJBM8T4R7B5N0C1D2E4"), added("we_01M7W78FJBM8T4R7B5N0C1D2E4")},
		"add again where it is full":  {full, add("we_1"), nil},
		"rotate what was rotated":     {one, projects.RotateSecret{EndpointID: "we_1", From: 2}, nil},
		"add the seventeenth":         {full, add("we_x"), &domain.Refusal{Code: domain.WebhookEndpointLimit}},
		"add where one was removed":   {freed, add("we_x"), added("we_x")},
		"add without a URL":           {registered(), with(func(c *projects.AddEndpoint) { c.URL = "" }), field("url", domain.Required)},
		"add a URL with a line break": {registered(), with(func(c *projects.AddEndpoint) { c.URL += "\n" }), field("url", domain.ControlCharacter)},
		"add the longest URL": {
			registered(),
			with(func(c *projects.AddEndpoint) { c.URL = strings.Repeat("u", projects.MaxEndpointURL) }),
			projects.WebhookEndpointAdded{
				EndpointID: "we_1", CreatedAt: 1000, URL: strings.Repeat("u", projects.MaxEndpointURL), Kinds: domain.FinalKinds(), KeyVersion: 1,
			},
		},
		"add a longer URL": {
			registered(),
			with(func(c *projects.AddEndpoint) { c.URL = strings.Repeat("u", projects.MaxEndpointURL+1) }),
			domain.FieldErrors{{Field: "url", Code: domain.TooLong, Limit: projects.MaxEndpointURL, Got: projects.MaxEndpointURL + 1}},
		},
		"add a long description": {
			registered(),
			with(func(c *projects.AddEndpoint) { c.Description = &long }),
			domain.FieldErrors{{Field: "description", Code: domain.TooLong, Limit: projects.MaxEndpointDescription, Got: projects.MaxEndpointDescription + 1}},
		},
		"kinds are kept in one order, once": {
			registered(),
			with(func(c *projects.AddEndpoint) {
				c.Kinds = []domain.Kind{domain.KindRefundFailed, domain.KindPaymentPaid, domain.KindRefundFailed}
			}),
			projects.WebhookEndpointAdded{
				EndpointID: "we_1", CreatedAt: 1000, URL: hook, KeyVersion: 1,
				Kinds: []domain.Kind{domain.KindPaymentPaid, domain.KindRefundFailed},
			},
		},
		"change": {
			one,
			projects.ChangeEndpoint{EndpointID: "we_1", URL: hook + "2", Description: text("b")},
			projects.WebhookEndpointChanged{EndpointID: "we_1", URL: hook + "2", Kinds: domain.FinalKinds(), Description: text("b")},
		},
		"edit the URL": {
			one,
			projects.EditEndpoint{EndpointID: "we_1", URL: text(hook + "2")},
			projects.WebhookEndpointChanged{EndpointID: "we_1", URL: hook + "2", Kinds: domain.FinalKinds()},
		},
		"edit the kinds": {
			one,
			projects.EditEndpoint{EndpointID: "we_1", Kinds: []domain.Kind{domain.KindRefundFailed}},
			projects.WebhookEndpointChanged{EndpointID: "we_1", URL: hook, Kinds: []domain.Kind{domain.KindRefundFailed}},
		},
		"edit the description": {
			one,
			projects.EditEndpoint{EndpointID: "we_1", Description: text("b")},
			projects.WebhookEndpointChanged{EndpointID: "we_1", URL: hook, Kinds: domain.FinalKinds(), Description: text("b")},
		},
		"edit nothing":                {one, projects.EditEndpoint{EndpointID: "we_1"}, nil},
		"edit to no URL":              {one, projects.EditEndpoint{EndpointID: "we_1", URL: text("")}, field("url", domain.Required)},
		"edit an unknown one":         {one, projects.EditEndpoint{EndpointID: "we_2"}, notFound},
		"add a URL with a blank":      {registered(), with(func(c *projects.AddEndpoint) { c.URL += " " }), field("url", domain.InvalidValue)},
		"add a URL beyond ASCII":      {registered(), with(func(c *projects.AddEndpoint) { c.URL += "é" }), field("url", domain.InvalidValue)},
		"add a URL that is no UTF-8":  {registered(), with(func(c *projects.AddEndpoint) { c.URL += "\xff" }), field("url", domain.InvalidValue)},
		"change to the same":          {one, projects.ChangeEndpoint{EndpointID: "we_1", URL: hook}, nil},
		"change an unknown one":       {one, projects.ChangeEndpoint{EndpointID: "we_2", URL: hook}, notFound},
		"disable":                     {one, projects.DisableEndpoint{At: 5, EndpointID: "we_1", Reason: projects.DisabledGone}, disabled[2]},
		"disable twice":               {disabled, projects.DisableEndpoint{At: 9, EndpointID: "we_1", Reason: projects.DisabledByRequest}, nil},
		"disable for no known reason": {one, projects.DisableEndpoint{At: 9, EndpointID: "we_1", Reason: "x"}, field("reason", domain.InvalidValue)},
		"disable an unknown one":      {one, projects.DisableEndpoint{At: 9, EndpointID: "we_2", Reason: projects.DisabledGone}, notFound},
		"enable":                      {disabled, projects.EnableEndpoint{EndpointID: "we_1"}, projects.WebhookEndpointEnabled{EndpointID: "we_1"}},
		"enable what is enabled":      {one, projects.EnableEndpoint{EndpointID: "we_1"}, nil},
		"enable an unknown one":       {one, projects.EnableEndpoint{EndpointID: "we_2"}, notFound},
		"remove":                      {one, projects.RemoveEndpoint{EndpointID: "we_1"}, projects.WebhookEndpointRemoved{EndpointID: "we_1"}},
		"remove an unknown one":       {one, projects.RemoveEndpoint{EndpointID: "we_2"}, notFound},
		"rotate": {
			one,
			projects.RotateSecret{At: 2000, EndpointID: "we_1", Overlap: time.Hour, KeyVersion: 2},
			projects.WebhookSecretRotated{EndpointID: "we_1", Generation: 2, KeyVersion: 2, PreviousUntil: domain.Instant(2000).Add(time.Hour)},
		},
		"rotate without an overlap": {
			one,
			projects.RotateSecret{At: 2000, EndpointID: "we_1", KeyVersion: 1},
			projects.WebhookSecretRotated{EndpointID: "we_1", Generation: 2, KeyVersion: 1, PreviousUntil: 2000},
		},
		"rotate with too long an overlap": {
			one, projects.RotateSecret{EndpointID: "we_1", Overlap: projects.MaxSecretOverlap + 1}, field("overlap_seconds", domain.InvalidValue),
		},
		"rotate with an overlap below nothing": {
			one, projects.RotateSecret{EndpointID: "we_1", Overlap: -1}, field("overlap_seconds", domain.InvalidValue),
		},
		"rotate of an unknown one": {one, projects.RotateSecret{EndpointID: "we_2"}, notFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := foldProject(tt.given).Decide(tt.when)
			var got any = err
			if err == nil && e != nil {
				got = e
			}
			if err == nil && e == nil {
				got = nil
			}
			if diff := cmp.Diff(tt.then, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAnUnknownKindIsRefusedWithTheKnownOnes(t *testing.T) {
	t.Parallel()
	for _, k := range []domain.Kind{"payment.captured", domain.KindEndpointTest, "PAYMENT.PAID", ""} {
		c := add("we_1")
		c.Kinds = []domain.Kind{domain.KindPaymentPaid, k}
		_, err := foldProject(registered()).Decide(c)
		errs, ok := errors.AsType[domain.FieldErrors](err)
		if !ok || len(errs) != 1 || errs[0].Field != "kinds" || errs[0].Code != domain.InvalidValue || len(errs[0].Allowed) != len(domain.Kinds()) {
			t.Errorf("%q: %v", k, err)
		}
	}
}

func TestSecretsOverlap(t *testing.T) {
	t.Parallel()
	first, second, third := projects.Secret{Generation: 1, KeyVersion: 1}, projects.Secret{Generation: 2, KeyVersion: 1}, projects.Secret{Generation: 3, KeyVersion: 2}
	rotated := func(s projects.Secret, until domain.Instant) domain.Event {
		return projects.WebhookSecretRotated{EndpointID: "we_1", Generation: s.Generation, KeyVersion: s.KeyVersion, PreviousUntil: until}
	}
	for _, tt := range []struct {
		events []domain.Event
		at     domain.Instant
		want   []projects.Secret
	}{
		{nil, 0, []projects.Secret{first}},
		{[]domain.Event{rotated(second, 100)}, 99, []projects.Secret{second, first}},
		{[]domain.Event{rotated(second, 100)}, 100, []projects.Secret{second}},
		{[]domain.Event{rotated(second, 100), rotated(third, 200)}, 99, []projects.Secret{third, second, first}},
		{[]domain.Event{rotated(second, 100), rotated(third, 200)}, 100, []projects.Secret{third, second}},
		{[]domain.Event{rotated(second, 200), rotated(third, 100)}, 150, []projects.Secret{third, first}},
		{[]domain.Event{rotated(second, 100), rotated(third, 50)}, 50, []projects.Secret{third, first}},
		{[]domain.Event{rotated(second, 100), rotated(third, 200)}, 200, []projects.Secret{third}},
	} {
		p := foldProject(append(append(registered(), added("we_1")), tt.events...))
		e, _ := p.Endpoint("we_1")
		if diff := cmp.Diff(tt.want, e.Secrets(tt.at)); diff != "" {
			t.Errorf("%v at %d, -want +got:\n%s", tt.events, tt.at, diff)
		}
	}
}

// TestManySecretsOverlap: with more than MaxOldSecrets old secrets, those that
// would expire first expire at once.
func TestManySecretsOverlap(t *testing.T) {
	t.Parallel()
	const rotations = projects.MaxOldSecrets + 5
	given := append(registered(), added("we_1"))
	for i := range rotations {
		given = append(given, projects.WebhookSecretRotated{
			EndpointID: "we_1", Generation: i + 2, KeyVersion: 1, PreviousUntil: 1000 - domain.Instant(i%2), // every second one ends earlier
		})
	}
	e, _ := foldProject(given).Endpoint("we_1")
	got := e.Secrets(0)
	if len(got) != 1+projects.MaxOldSecrets || got[0].Generation != rotations+1 || got[1].Generation != rotations {
		t.Fatalf("%d secrets sign: %v", len(got), got)
	}
	for i, s := range got[1:] {
		if s.Generation >= got[i].Generation {
			t.Errorf("not the newest first: %v", got)
		}
	}
	if until := e.SecretsUntil(0); until != 1000 || len(e.Secrets(999)) != 1+(rotations+1)/2 || len(e.Secrets(1000)) != 1 {
		t.Errorf("%d sign at the end, the last until %d", len(e.Secrets(999)), until)
	}
}

// TestEndpointEventsLeaveEarlierValuesAlone: a project is a value; events do not
// change an earlier one.
func TestEndpointEventsLeaveEarlierValuesAlone(t *testing.T) {
	t.Parallel()
	p := foldProject(append(registered(), added("we_1"), added("we_2")))
	before := p.Endpoints[0]
	for _, e := range []domain.Event{
		projects.WebhookEndpointChanged{EndpointID: "we_1", URL: "https://other.example"},
		projects.WebhookEndpointDisabled{EndpointID: "we_1", Reason: projects.DisabledGone},
		projects.WebhookEndpointRemoved{EndpointID: "we_1"},
		projects.WebhookSecretRotated{EndpointID: "we_1", Generation: 2},
	} {
		p.Evolve(e)
		if diff := cmp.Diff(before, p.Endpoints[0]); diff != "" {
			t.Errorf("%s changed a value from before:\n%s", e.Type(), diff)
		}
	}
}

// TestEveryEventOfAPaymentHasAKindOrNone lists which events notify.
func TestEveryEventOfAPaymentHasAKindOrNone(t *testing.T) {
	t.Parallel()
	silent := map[string]bool{
		domain.TypePaymentSignalRefused: true, domain.TypePaymentLateFunds: true, domain.TypePaymentAttemptBegun: true,
		domain.TypePaymentAttemptOffered: true, domain.TypePaymentAttemptFailed: true, domain.TypePaymentRefundedAtProvider: true,
		domain.TypePaymentSuspenseSettled: true, domain.TypePaymentDetailsErased: true,
		domain.TypeReturnCreated: true, domain.TypeReturnSucceeded: true, domain.TypeReturnFailed: true,
	}
	seen := map[domain.Kind]bool{}
	for _, e := range domain.Events() {
		k, ok := domain.KindOfType(e.Name)
		_, payment := e.Sample.(domain.PaymentEvent)
		if ok != (payment && !silent[e.Name]) {
			t.Errorf("%s notifies: %v", e.Name, ok)
		}
		seen[k] = ok
	}
	for _, k := range domain.Kinds() {
		if !seen[k] {
			t.Errorf("no event leads to %s", k)
		}
	}
}
