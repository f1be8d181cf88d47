package projects_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/domain/projects"
)

func registered() []domain.Event {
	return []domain.Event{projects.ProjectRegistered{Name: "Чайная лавка", Settings: domain.DefaultSettings()}}
}

func keyIssued(keyID, secret string) projects.KeyIssued {
	return projects.KeyIssued{KeyID: keyID, Hash: projects.HashKey(secret), Scopes: projects.AllScopes()}
}

func foldProject(events []domain.Event) projects.Project {
	p := projects.Project{ID: "prj_1"}
	for _, e := range events {
		p = p.Evolve(e)
	}
	return p
}

func TestDecideProject(t *testing.T) {
	t.Parallel()
	settings := func(change func(*domain.Settings)) domain.Settings {
		s := domain.DefaultSettings()
		change(&s)
		return s
	}
	register := func(name string, s domain.Settings) projects.RegisterProject {
		return projects.RegisterProject{Name: name, Settings: s}
	}
	defaults := domain.DefaultSettings()
	two := append(registered(), keyIssued("key_1", "a"), keyIssued("key_2", "b"))
	oneRevoked := append(slices.Clone(two), projects.KeyRevoked{KeyID: "key_1"})
	disabled := append(registered(), projects.ProjectDisabled{})
	notFound := &domain.Refusal{Code: domain.ProjectNotFound}
	field := func(name string, code domain.Code) domain.FieldErrors {
		return domain.FieldErrors{{Field: name, Code: code}}
	}
	lifetime := func(seconds int) projects.RegisterProject {
		return register("Лавка", settings(func(s *domain.Settings) { s.LifetimeSeconds = seconds }))
	}
	most := func(a domain.Amount) projects.RegisterProject {
		return register("Лавка", settings(func(s *domain.Settings) { s.MaxAmount = a }))
	}
	wrongMost := domain.FieldErrors{{
		Field: "max_amount", Code: domain.InvalidValue, Min: domain.MinAmount, Max: domain.MaxAmount,
	}}

	for _, tt := range []struct {
		name    string
		given   []domain.Event
		when    projects.ProjectCommand
		want    domain.Event
		wantErr error
	}{
		{
			name: "register", when: register("Лавка", defaults),
			want: projects.ProjectRegistered{Name: "Лавка", Settings: defaults},
		},
		{
			name: "register twice", given: registered(), when: register("Лавка", defaults),
			wantErr: &domain.Refusal{Code: domain.InternalError},
		},
		{name: "no name", when: register("", defaults), wantErr: field("name", domain.Required)},
		{name: "blank name", when: register(" \u00a0\t", defaults), wantErr: field("name", domain.Required)},
		{name: "line in the name", when: register("a\nb", defaults), wantErr: field("name", domain.ControlCharacter)},
		{name: "name not UTF-8", when: register("a\xff", defaults), wantErr: field("name", domain.InvalidValue)},
		{
			name: "longest name", when: register(strings.Repeat("ж", 128), defaults),
			want: projects.ProjectRegistered{Name: strings.Repeat("ж", 128), Settings: defaults},
		},
		{
			name: "long name", when: register(strings.Repeat("ж", 129), defaults),
			wantErr: domain.FieldErrors{{Field: "name", Code: domain.TooLong, Limit: 128, Got: 129}},
		},
		{
			name: "no currency", when: register("Лавка", settings(func(s *domain.Settings) { s.Currencies = nil })),
			wantErr: field("currencies", domain.Required),
		},
		{
			name: "currency without minor digits",
			when: register("Лавка", settings(func(s *domain.Settings) {
				s.Currencies = []domain.Currency{"RUB", "JPY", "BHD"}
			})),
			wantErr: field("currencies", domain.CurrencyNotSupported),
		},
		{name: "maximum of nothing", when: most(0), wantErr: wrongMost},
		{name: "maximum above the greatest", when: most(domain.MaxAmount + 1), wantErr: wrongMost},
		{
			name: "least maximum", when: most(domain.MinAmount),
			want: projects.ProjectRegistered{Name: "Лавка", Settings: most(domain.MinAmount).Settings},
		},
		{name: "too short a lifetime", when: lifetime(299), wantErr: field("lifetime_seconds", domain.InvalidValue)},
		{
			name: "shortest lifetime", when: lifetime(300),
			want: projects.ProjectRegistered{Name: "Лавка", Settings: lifetime(300).Settings},
		},
		{
			name: "longest lifetime", when: lifetime(90 * 86400),
			want: projects.ProjectRegistered{Name: "Лавка", Settings: lifetime(90 * 86400).Settings},
		},
		{name: "too long a lifetime", when: lifetime(90*86400 + 1), wantErr: field("lifetime_seconds", domain.InvalidValue)},
		{
			name: "a lifetime that overflows into the range", when: lifetime(int(math.MaxUint64/uint64(time.Second)) + 301),
			wantErr: field("lifetime_seconds", domain.InvalidValue),
		},
		{
			name: "all that is wrong, at once", when: register("", domain.Settings{}),
			wantErr: domain.FieldErrors{
				{Field: "currencies", Code: domain.Required},
				wrongMost[0],
				{Field: "lifetime_seconds", Code: domain.InvalidValue},
				{Field: "name", Code: domain.Required},
			},
		},

		{
			name: "edit", given: registered(), when: projects.EditProject{Edit: func(name *string, _ *domain.Settings) { *name = "Лавка 2" }},
			want: projects.ProjectChanged{Name: "Лавка 2", Settings: defaults},
		},
		{name: "edit nothing there", when: projects.EditProject{Edit: func(*string, *domain.Settings) { panic("there is none") }}, wantErr: notFound},
		{name: "change nothing", when: projects.ChangeProject{Name: "Лавка", Settings: defaults}, wantErr: notFound},
		{
			name: "change", given: registered(), when: projects.ChangeProject{Name: "Лавка", Settings: most(7).Settings},
			want: projects.ProjectChanged{Name: "Лавка", Settings: most(7).Settings},
		},
		{
			name: "change to no name", given: registered(), when: projects.ChangeProject{Settings: defaults},
			wantErr: field("name", domain.Required),
		},

		{name: "sign out of nothing", when: projects.SignOutProject{At: 5}, wantErr: notFound},
		{name: "sign out", given: registered(), when: projects.SignOutProject{At: 5}, want: projects.ProjectSignedOut{At: 5}},
		{name: "disable nothing", when: projects.DisableProject{}, wantErr: notFound},
		{name: "disable", given: registered(), when: projects.DisableProject{}, want: projects.ProjectDisabled{}},
		{name: "disable again", given: disabled, when: projects.DisableProject{}},

		{name: "key for nothing", when: projects.IssueKey(keyIssued("key_1", "a")), wantErr: notFound},
		{
			name: "key", given: registered(), when: projects.IssueKey(keyIssued("key_1", "a")),
			want: keyIssued("key_1", "a"),
		},
		{
			name: "key id that is taken", given: oneRevoked, when: projects.IssueKey(keyIssued("key_1", "c")),
			wantErr: &domain.Refusal{Code: domain.InternalError},
		},
		{name: "key that is there", given: two, when: projects.IssueKey(keyIssued("key_9", "b"))},
		{name: "key that was revoked", given: oneRevoked, when: projects.IssueKey(keyIssued("key_9", "a"))},
		{
			name: "key without scopes", given: registered(), when: projects.IssueKey{KeyID: "key_1"},
			wantErr: field("scopes", domain.Required),
		},
		{
			name: "unheard-of scope", given: registered(),
			when:    projects.IssueKey{KeyID: "key_1", Scopes: []projects.Scope{projects.Read, "root"}},
			wantErr: field("scopes", domain.InvalidValue),
		},

		{name: "revoke of nothing", when: projects.RevokeKey{KeyID: "key_1"}, wantErr: notFound},
		{
			name: "revoke an unknown key", given: two, when: projects.RevokeKey{KeyID: "key_9"},
			wantErr: &domain.Refusal{Code: domain.KeyNotFound},
		},
		{name: "rename", given: two, when: projects.RenameKey{KeyID: "key_2", Name: "Till"}, want: projects.KeyRenamed{KeyID: "key_2", Name: "Till"}},
		{name: "rename to the same", given: append(slices.Clone(two), projects.KeyRenamed{KeyID: "key_2", Name: "Till"}), when: projects.RenameKey{KeyID: "key_2", Name: "Till"}},
		{name: "take a name away", given: append(slices.Clone(two), projects.KeyRenamed{KeyID: "key_2", Name: "Till"}), when: projects.RenameKey{KeyID: "key_2"}, want: projects.KeyRenamed{KeyID: "key_2"}},
		{name: "rename a revoked one", given: oneRevoked, when: projects.RenameKey{KeyID: "key_1", Name: "Till"}, want: projects.KeyRenamed{KeyID: "key_1", Name: "Till"}},
		{name: "sign out a key of nothing", when: projects.SignOutKey{KeyID: "key_1"}, wantErr: notFound},
		{name: "sign out", given: two, when: projects.SignOutKey{KeyID: "key_2"}, want: projects.KeySignedOut{KeyID: "key_2"}},
		{name: "sign out an unknown one", given: two, when: projects.SignOutKey{KeyID: "key_9"}, wantErr: &domain.Refusal{Code: domain.KeyNotFound}},
		{name: "revoke", given: two, when: projects.RevokeKey{KeyID: "key_2"}, want: projects.KeyRevoked{KeyID: "key_2"}},
		{name: "revoke again", given: oneRevoked, when: projects.RevokeKey{KeyID: "key_1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := foldProject(tt.given).Decide(tt.when)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("event (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantErr, err); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEvolveProject(t *testing.T) {
	t.Parallel()
	changed := domain.DefaultSettings()
	changed.MaxAmount = 7
	got := foldProject(append(registered(),
		keyIssued("key_1", "a"), keyIssued("key_2", "b"), projects.KeyRevoked{KeyID: "key_1"},
		projects.ProjectChanged{Name: "Лавка", Settings: changed}, projects.ProjectDisabled{}, domain.PaymentCreated{},
	))
	want := projects.Project{
		ID: "prj_1", Name: "Лавка", Settings: changed, Disabled: true,
		Keys: []projects.Key{
			{ID: "key_1", Hash: projects.HashKey("a"), Scopes: projects.AllScopes(), Revoked: true},
			{ID: "key_2", Hash: projects.HashKey("b"), Scopes: projects.AllScopes()},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	reader := keyIssued("key_3", "c")
	reader.Scopes = []projects.Scope{projects.Read}
	p := foldProject(append(registered(),
		keyIssued("key_1", "a"), keyIssued("key_2", "b"), reader, projects.KeyRevoked{KeyID: "key_1"}))
	for secret, want := range map[string]string{"a": "", "b": "key_2", "c": "key_3", "": "", "B": ""} {
		k, ok := p.Authenticate(projects.HashKey(secret))
		if k.ID != want || ok != (want != "") {
			t.Errorf("the secret %q is that of %q, %t, want %q", secret, k.ID, ok, want)
		}
	}
	k, _ := p.Authenticate(projects.HashKey("c"))
	if !k.Has(projects.Read) || k.Has(projects.PaymentsWrite) {
		t.Errorf("the reading key has scopes %q", k.Scopes)
	}
	if k, ok := (projects.Project{}).Authenticate(domain.Digest{}); ok {
		t.Errorf("a project without keys let in %+v", k)
	}
}

// TestEvolveLeavesItsProjectAlone evolves one project in two ways and
// compares the results with projects folded separately.
func TestEvolveLeavesItsProjectAlone(t *testing.T) {
	t.Parallel()
	event := rapid.Custom(func(t *rapid.T) domain.Event {
		key := rapid.SampledFrom([]string{"key_1", "key_2", "key_3"}).Draw(t, "key")
		return rapid.SampledFrom([]domain.Event{
			registered()[0],
			projects.ProjectChanged{Name: key, Settings: domain.DefaultSettings()},
			projects.ProjectDisabled{},
			keyIssued(key, key),
			projects.KeySignedOut{KeyID: key},
			projects.KeyRevoked{KeyID: key},
		}).Draw(t, "event")
	})
	rapid.Check(t, func(t *rapid.T) {
		past := rapid.SliceOfN(event, 0, 10).Draw(t, "past")
		a, b := event.Draw(t, "a"), event.Draw(t, "b")
		p, twin := foldProject(past), foldProject(past)
		left, right := p.Evolve(a), p.Evolve(b)
		for name, pair := range map[string][2]projects.Project{
			"start":  {p, twin},
			"first":  {left, foldProject(append(slices.Clone(past), a))},
			"second": {right, foldProject(append(slices.Clone(past), b))},
		} {
			if diff := cmp.Diff(pair[1], pair[0]); diff != "" {
				t.Fatalf("%s (-apart +together):\n%s", name, diff)
			}
		}
	})
}

// Each limit has bounds, and the value at each bound is taken.
func TestOwnLimits(t *testing.T) {
	t.Parallel()
	for _, name := range domain.LimitNames() {
		least, greatest := domain.LimitBounds(name)
		for n, ok := range map[int]bool{least - 1: false, least: true, greatest: true, greatest + 1: false} {
			settings := domain.DefaultSettings()
			*settings.OwnLimit(name) = &n
			_, err := projects.Project{}.Decide(projects.RegisterProject{Name: "Tea", Settings: settings})
			if want := (domain.FieldErrors{{Field: name, Code: domain.InvalidValue}}); ok && err != nil || !ok && !cmp.Equal(err, error(want)) {
				t.Errorf("%s %d: %v", name, n, err)
			}
			limits := settings.LimitsOver(domain.DefaultLimits())
			if got := *limits.Named(name); got != n {
				t.Errorf("%s is %d, want %d", name, got, n)
			}
			*limits.Named(name) = *new(domain.DefaultLimits()).Named(name)
			if limits != domain.DefaultLimits() {
				t.Errorf("%s changed another limit: %+v", name, limits)
			}
		}
	}
}

func TestTimeZone(t *testing.T) {
	t.Parallel()
	for zone, ok := range map[string]bool{
		"": true, "UTC": true, "Europe/Moscow": true, "America/Argentina/Buenos_Aires": true, "Etc/GMT+3": true, "Gone/With-The-Database": true,
		"Europe/Moscow\n": false, "../x": false, "Москва": false, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false,
	} {
		settings := domain.DefaultSettings()
		settings.TimeZone = zone
		_, err := projects.Project{}.Decide(projects.RegisterProject{Name: "Tea", Settings: settings})
		if (err == nil) != ok {
			t.Errorf("%q: %v", zone, err)
		}
	}
}

func TestShopURL(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"": true, "https://shop.example": true, "https://shop.example:8443/a?b=c&d=%D0%B0#e": true, "https://xn--80ak6aa92e.com/": true,
		"http://shop.example": false, "javascript:alert(1)": false, "https:shop.example": false, "https://": false, "https:///a": false,
		"//shop.example": false, " https://shop.example": false, "https://shop.example/ a": false, "https://me@shop.example": false,
		"https://shop.example\\@evil.example": false, "https://лавка.рф": false, "https://shop.example/\n": false, "https://127.0.0.1/": false,
	} {
		settings := domain.DefaultSettings()
		settings.ShopURL = url
		_, err := projects.Project{}.Decide(projects.RegisterProject{Name: "Tea", Settings: settings})
		if (err == nil) != ok {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// TestKeysAreNotShared evolves one value twice. The capacity of slices grows in
// steps, so it tries each length up to a few steps: at some, append has spare
// capacity and could overwrite an element of the first result.
func TestKeysAreNotShared(t *testing.T) {
	t.Parallel()
	project := foldProject(registered())
	for n := byte(10); n < 30; n++ {
		a, b := project.Evolve(keyIssued(string(rune(n+'A')), "a")), project.Evolve(keyIssued("key_b", "b"))
		last := len(a.Keys) - 1
		if a.Keys[last].ID == "key_b" || b.Keys[last].ID != "key_b" {
			t.Fatalf("with %d keys, two projects share one slice", last)
		}
		project = a
	}
}
