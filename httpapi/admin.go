package httpapi

import (
	"context"
	"io"
	"net/http"

	"payledger/domain"
	"payledger/eventstore"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// admin is the handler of the program's own administration.
type admin struct {
	cfg     adminConfig
	settler settler
}

// adminConfig is what the administration works with, beside what the
// merchants' operations need.
type adminConfig struct {
	merchantConfig

	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: none are kept

	// Backup copies the log as it is at one moment: begin gets the position of
	// the last event in the copy and the bytes that will come, and answers
	// where they go. nil: no backups.
	Backup func(ctx context.Context, begin func(last eventstore.Position, size int64) (io.Writer, error)) error

	// Parked are the providers' signals that could not be judged. nil: no rows
	// for them.
	Parked Parked
}

func (a *admin) routes() []route {
	const projects, project = "/admin/projects", "/admin/projects/{id}"
	table := []route{
		{method: "POST", path: projects, operation: "adminCreateProject", body: true, handle: a.createProject},
		{method: "GET", path: projects, operation: "adminListProjects", handle: a.listProjects},
		{method: "GET", path: project, operation: "adminGetProject", handle: a.getProject},
		{method: "POST", path: project, operation: "adminChangeProject", body: true, handle: a.changeProject},
		{method: "POST", path: project + "/disable", operation: "adminDisableProject", handle: a.disableProject},
		{method: "POST", path: project + "/keys", operation: "adminIssueKey", body: true, handle: a.issueKey},
		{method: "GET", path: project + "/keys", operation: "adminListKeys", handle: a.listKeys},
		{method: "DELETE", path: project + "/keys/{key}", operation: "adminRevokeKey", handle: a.revokeKey},
		{method: "GET", path: "/admin/balance", operation: "adminBalance", handle: a.balance},
		{method: "GET", path: "/admin/balance/statement", operation: "adminStatement", handle: a.statement},
		{method: "GET", path: "/admin/balance/late-funds", operation: "adminLateFunds", handle: a.lateFunds},
		{method: "GET", path: "/admin/events", operation: "adminEvents", endless: true, handle: a.events},
		{method: "POST", path: "/admin/verify", operation: "adminVerify", body: true, endless: true, handle: a.verify},
		{method: "GET", path: "/admin/replay", operation: "adminReplay", endless: true, handle: a.replay},
	}
	if a.cfg.Backup != nil {
		table = append(table, route{method: "GET", path: "/admin/backup", operation: "adminBackup", endless: true, handle: a.backup})
	}
	if a.cfg.Checkpoint != nil {
		table = append(table, route{method: "GET", path: "/admin/log/checkpoint", operation: "adminCheckpoint", handle: a.checkpoint})
	}
	if a.cfg.Webhooks != nil {
		table = append(table, a.webhookRoutes()...)
	}
	if a.cfg.Parked != nil {
		table = append(table, a.parkedRoutes()...)
	}
	if a.cfg.Sandbox != nil {
		table = append(
			table,
			route{method: "POST", path: "/admin/sandbox/payments/{id}", operation: "adminSettlePayment", body: true, handle: a.settlePayment},
			route{method: "POST", path: "/admin/sandbox/refunds/{id}", operation: "adminSettleRefund", body: true, handle: a.settleRefund},
		)
	}
	return table
}

// NewAdmin returns the handler that is served on the unix socket in the data
// directory. It asks for no credentials: who can open the socket may do
// everything. It speaks JSON with the same problem documents as the API.
//
//	POST   /admin/projects              {"name","settings"?,"scopes"?} → 201 project with "key_id" and "api_key"
//	GET    /admin/projects              → {"data":[project…]}
//	GET    /admin/projects/{id}         → project
//	POST   /admin/projects/{id}         {"name"?,"settings"?: only members to change} → project
//	POST   /admin/projects/{id}/disable → project
//	POST   /admin/projects/{id}/keys    {"scopes"?} → 201 {"key_id","api_key","scopes"}
//	GET    /admin/projects/{id}/keys    → {"data":[{"key_id","scopes","revoked"}…]}
//	DELETE /admin/projects/{id}/keys/{key_id} → 204
//	GET    /admin/balance?project=&as_of= → {"position","time","balances","projects":[{"project_id","balances"}…]}
//	GET    /admin/balance/statement?project=&account=&currency=&from=&to=&limit=&cursor= → {"data":[posting…],"next_cursor"}
//	GET    /admin/balance/late-funds?project=&currency=&from=&to=&limit=&cursor= → the same of suspense, with reason and reference
//	GET    /admin/events?after=&project=&follow=true → JSON lines {"position","event"}
//	GET    /admin/backup                → the event log's file, with Payledger-Position
//	POST   /admin/verify {"verifier_keys","checkpoints":[{"name","note","beside"}]} → JSON lines, see EvidenceLine
//	GET    /admin/replay?check=true&position=&time=&payment= → JSON lines, likewise
//	GET    /admin/log/checkpoint        → a fresh checkpoint, a signed note as text
//	POST   /admin/projects/{id}/webhook-endpoints {"url","kinds"?,"description"?} → 201 endpoint with "secret"
//	GET    /admin/projects/{id}/webhook-endpoints?limit=&cursor= → {"data":[endpoint…],"next_cursor"}
//	GET    …/webhook-endpoints/{endpoint_id} → endpoint
//	POST   …/webhook-endpoints/{endpoint_id} {"url"?,"kinds"?,"description"?: only what to change} → endpoint
//	DELETE …/webhook-endpoints/{endpoint_id} → 204
//	POST   …/{endpoint_id}/rotate-secret {"overlap_seconds"?} → endpoint with the new "secret"
//	POST   …/{endpoint_id}/enable, …/disable → endpoint
//	POST   …/{endpoint_id}/test → 202 delivery
//	POST   …/{endpoint_id}/recover {"since"} → 202 {"enqueued"}
//	GET    …/{endpoint_id}/deliveries?state=&payment_id=&event_id=&limit=&cursor= → {"data":[delivery…],"next_cursor"}
//	GET    …/{endpoint_id}/deliveries/{event_id} → delivery
//	POST   …/{endpoint_id}/deliveries/{event_id}/resend → 202 delivery
//	GET    /admin/projects/{id}/payments/{payment_id}/deliveries?state=&event_id=&limit=&cursor= → the same list, of all endpoints
//	GET    /admin/signals/parked?after=&reason=&limit= → domain.ParkedPage
//	POST   /admin/signals/parked/{id}/retry   → domain.SignalReply
//	POST   /admin/signals/parked/{id}/discard → 204
//	POST   /admin/signals/parked/discard?through= → {"discarded"}
//	POST   /admin/sandbox/payments/{id} {"outcome"} → payment
//	POST   /admin/sandbox/refunds/{id}  {"outcome"} → refund
//
// An api_key is told once, in the answer that issues it; only its hash is
// kept. A stream of followed events ends with the request's context, when the
// server begins to stop or when the store is closed.
func NewAdmin(cfg adminConfig) (http.Handler, error) {
	var err error
	if cfg.merchantConfig, err = cfg.merchantConfig.checked(); err != nil {
		return nil, err
	}
	e, err := newEdge(cfg.edge(cfg.Log, cfg.Metrics, "admin"))
	if err != nil {
		return nil, err
	}
	a := &admin{cfg: cfg, settler: settler{cfg: cfg.merchantConfig}}
	router := newRouter(a.routes(), run)
	return e.wrap(func(x *exchange) { x.dispatch(router) }), nil
}

// projectView is a project as its operator sees it.
type projectView struct {
	ProjectID string          `json:"project_id"`
	Name      string          `json:"name"`
	Disabled  bool            `json:"disabled"`
	Settings  domain.Settings `json:"settings"`
	Keys      []keyView       `json:"keys"`
	KeyID     string          `json:"key_id,omitempty"`  // of the first key, when the project was just made
	APIKey    string          `json:"api_key,omitempty"` // its secret, likewise
}

func viewOf(p domain.Project) projectView {
	return projectView{ProjectID: p.ID, Name: p.Name, Disabled: p.Disabled, Settings: p.Settings, Keys: keysOf(p)}
}

func (a *admin) createProject(x *exchange) error {
	wish, err := projectWishOf(x.body, domain.DefaultSettings(), "name", "settings", "scopes")
	if err != nil {
		return err
	}
	id := "prj_" + a.cfg.IDs.Next().String()
	p, err := a.execute(x.ctx(), id, domain.RegisterProject{Name: wish.name, Settings: wish.settings}, true)
	if err != nil {
		return err
	}
	p, key, err := issueKey(x.ctx(), a.cfg.merchantConfig, p.ID, wish.scopes)
	if err != nil {
		return err
	}
	v := viewOf(p)
	v.KeyID, v.APIKey = key.KeyID, key.APIKey
	x.Header().Set("Location", "/admin/projects/"+id)
	return x.reply(http.StatusCreated, v)
}

func (a *admin) listProjects(x *exchange) error {
	all, err := a.cfg.Views.Projects(x.ctx())
	if err != nil {
		return err
	}
	views := make([]projectView, 0, len(all))
	for _, p := range all {
		views = append(views, viewOf(p))
	}
	return x.reply(http.StatusOK, map[string]any{"data": views})
}

func (a *admin) getProject(x *exchange) error {
	p, err := a.project(x)
	if err != nil {
		return err
	}
	return x.reply(http.StatusOK, viewOf(p))
}

func (a *admin) changeProject(x *exchange) error {
	p, err := a.project(x)
	if err != nil {
		return err
	}
	wish, err := projectWishOf(x.body, p.Settings, "name", "settings")
	if err != nil {
		return err
	}
	if !wish.named {
		wish.name = p.Name
	}
	p, err = a.execute(x.ctx(), p.ID, domain.ChangeProject{Name: wish.name, Settings: wish.settings}, false)
	if err != nil {
		return err
	}
	return x.reply(http.StatusOK, viewOf(p))
}

func (a *admin) disableProject(x *exchange) error {
	p, err := a.project(x)
	if err != nil {
		return err
	}
	if p, err = a.execute(x.ctx(), p.ID, domain.DisableProject{}, false); err != nil {
		return err
	}
	return x.reply(http.StatusOK, viewOf(p))
}

func (a *admin) issueKey(x *exchange) error {
	p, err := a.project(x)
	if err != nil {
		return err
	}
	wish, err := projectWishOf(x.body, p.Settings, "scopes")
	if err != nil {
		return err
	}
	_, key, err := issueKey(x.ctx(), a.cfg.merchantConfig, p.ID, wish.scopes)
	if err != nil {
		return err
	}
	return x.reply(http.StatusCreated, key)
}

func (a *admin) listKeys(x *exchange) error {
	p, err := a.project(x)
	if err != nil {
		return err
	}
	return x.reply(http.StatusOK, map[string]any{"data": keysOf(p)})
}

func (a *admin) revokeKey(x *exchange) error {
	p, err := a.project(x)
	if err != nil {
		return err
	}
	if _, err := a.execute(x.ctx(), p.ID, domain.RevokeKey{KeyID: x.vars["key"]}, false); err != nil {
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// project finds the project a path names.
func (a *admin) project(x *exchange) (domain.Project, error) {
	p, ok, err := a.cfg.Views.Project(x.ctx(), x.vars["id"])
	if err == nil && !ok {
		err = &domain.Refusal{Code: domain.ProjectNotFound}
	}
	return p, err
}

func (a *admin) execute(ctx context.Context, id string, cmd domain.ProjectCommand, isNew bool) (domain.Project, error) {
	return executeOn(ctx, a.cfg.merchantConfig, id, cmd, isNew)
}

// checkpoint answers GET /admin/log/checkpoint.
func (a *admin) checkpoint(x *exchange) error { return replyCheckpoint(x, a.cfg.Checkpoint) }
