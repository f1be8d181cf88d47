package merchant

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// Caller is who an operation is done for: a project by one of its keys, as
// they were when the request arrived. Every operation takes one and begins
// with Admit, so scopes and budgets hold whichever way the operation is
// reached. SignIn, Resume and CallerOf make callers.
type Caller struct {
	Project projects.Project
	Key     projects.Key
	Trace   domain.Traceparent // of the request

	admitted projects.Scope // checked and counted already; "": nothing yet
	page     bool           // reads cost nothing: one page of the account makes several
	session  Session        // of the account; zero: there is none
	operator bool           // no key: every scope and no budget
	actor    string         // the operator's name in the log
}

// CallerOf is the caller of a request that passed Enter; for a request to the administration it is
// the operator, who acts for the project of its path, or without one on the payments of all
// projects.
func CallerOf(x *edge.Exchange) Caller {
	return Caller{
		Project: x.Project, Key: x.Key, Trace: x.Trace, admitted: x.Route.Scope, operator: x.Actor != "", actor: x.Actor,
	}
}

// Cause is the cause of the events that the caller has recorded.
func (c Caller) Cause() eventstore.Cause {
	return eventstore.Cause{Actor: cmp.Or(c.actor, c.Key.ID), Trace: c.Trace}
}

// Enter admits a request to its route.
func (a *API) Enter(x *edge.Exchange) error {
	if x.Route.Scope == "" {
		return nil
	}
	c := CallerOf(x)
	c.admitted = ""
	return a.Admit(&c, x.Route.Scope, x.Header())
}

// Limits are the limits of a project that are in force.
func (a *API) Limits(p projects.Project) domain.Limits { return p.Settings.LimitsOver(a.cfg.Limits) }

// Admit lets a caller do something that needs a scope, if the key has it and
// the project's budget has something left. The budget is taken from once for
// each operation. What is left is announced in the header, which may be nil.
func (a *API) Admit(c *Caller, need projects.Scope, announced http.Header) error {
	if c.operator || c.admitted == need {
		return nil
	}
	if !c.Key.Has(need) {
		return wire.Problem{Code: domain.ScopeMissing, RequiredScope: need}
	}
	budget, rate := a.writes, a.Limits(c.Project).RateWrites
	if need == projects.Read || need == projects.Audit {
		budget, rate = a.reads, a.Limits(c.Project).RateReads
		if c.page {
			rate = 0
		}
	}
	if err := budget.Allow(c.Project.ID, edge.PerSecond(rate), a.cfg.Now(), announced); err != nil {
		return err
	}
	c.admitted = need
	return nil
}

// sees reports whether the caller may reach a payment.
func (c Caller) sees(p domain.Payment) bool {
	return p.Project == c.Project.ID || c.operator && c.Project.ID == ""
}

// SignIn finds the project and the key of credentials. Every failure has the same answer after the
// same work: a header that cannot be read is checked as empty credentials, and an unknown project
// against a key without an owner. Only failures count against the address, so valid credentials are
// never refused for those of others. The problems are 401 unauthorized, 403 project_disabled and
// 429 rate_limited.
//
// What is left for the address of the client, which conns.Visitor names, is announced in the header
// where it is used up; it may be nil.
func (a *API) SignIn(ctx context.Context, client, id, secret string, announced http.Header) (Caller, error) {
	project, known, err := a.cfg.Views.Project(ctx, id)
	if err != nil {
		return Caller{}, err
	}
	if !known {
		project = a.nobody
	}
	key, live := project.Authenticate(projects.HashKey(secret))
	if !known || !live {
		if err := a.failures.Allow(client, edge.PerMinute(a.cfg.FailedAuthPerMinute), a.cfg.Now(), announced); err != nil {
			return Caller{}, err
		}
		if announced != nil { // this budget is announced where it is used up, not before
			announced.Del("RateLimit")
			announced.Del("RateLimit-Policy")
		}
		return Caller{}, wire.Problem{Code: domain.Unauthorized}.With("WWW-Authenticate", challenge)
	}
	return a.enterAs(project, key)
}

// Session is a session of the account, begun with a key.
type Session struct {
	Project, KeyID string
	Since          domain.Instant
	SignOuts       int // of the key, when the session began
}

// valid reports whether the sessions of the project and of the key were not ended since this one
// began.
func (s Session) valid(p projects.Project, k projects.Key) bool {
	return p.SignedOutAt < s.Since && k.SignOuts == s.SignOuts
}

// Resume finds the project and the key of a session of the account as they are now. The problem is
// 401 when the key was revoked, or the sessions of the project or of the key were ended after this
// one began. The caller's reads do not count against the project's limit, as pages have a separate
// one.
func (a *API) Resume(ctx context.Context, s Session) (Caller, error) {
	project, known, err := a.cfg.Views.Project(ctx, s.Project)
	if err != nil {
		return Caller{}, err
	}
	i := liveKey(project, s.KeyID)
	if !known || i < 0 {
		return Caller{}, wire.Problem{Code: domain.Unauthorized, Detail: "The API key of this session is not in use any more. Sign in with another one."}
	}
	if !s.valid(project, project.Keys[i]) {
		return Caller{}, wire.Problem{Code: domain.Unauthorized}
	}
	c, err := a.enterAs(project, project.Keys[i])
	c.page, c.session = true, s
	return c, err
}

// enterAs is the caller of a live key.
func (a *API) enterAs(project projects.Project, key projects.Key) (Caller, error) {
	c := Caller{Project: project, Key: key}
	a.cfg.KeyTimes.Use(key.ID, a.cfg.Now())
	if project.Disabled {
		return c, wire.Problem{Code: domain.ProjectDisabledCode}
	}
	return c, nil
}

// recheck returns an error if the caller has lost the right to read. It is
// called before each part of a long answer, which must not outlive that right.
func (a *API) recheck(ctx context.Context, c Caller) error {
	if c.operator {
		return nil
	}
	p, known, err := a.cfg.Views.Project(ctx, c.Project.ID)
	switch {
	case err != nil:
		return err
	case known && p.Disabled:
		return wire.Problem{Code: domain.ProjectDisabledCode}
	}
	i := liveKey(p, c.Key.ID)
	switch {
	case !known || i < 0 || c.session != (Session{}) && !c.session.valid(p, p.Keys[i]):
		return wire.Problem{Code: domain.Unauthorized}.With("WWW-Authenticate", challenge)
	case !p.Keys[i].Has(c.admitted):
		return wire.Problem{Code: domain.ScopeMissing, RequiredScope: c.admitted}
	}
	return nil
}

// liveKey is the place of a project's key that is not revoked, -1 for none.
func liveKey(p projects.Project, id string) int {
	return slices.IndexFunc(p.Keys, func(k projects.Key) bool { return k.ID == id && !k.Revoked })
}
