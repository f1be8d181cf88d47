package admin

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"sync"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/peer"
	"payledger/httpapi/wire"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// admin is the handler of the program's own administration.
type admin struct {
	cfg Config
	api *merchant.API
}

// Config is what the administration needs besides the merchants' operations.
type Config struct {
	merchant.Config

	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: none

	// Backup copies the log as it is at one moment: begin gets the position of
	// the last event in the copy and the bytes that will come, and answers
	// where they go. nil: no backups.
	Backup func(ctx context.Context, begin func(last eventstore.Position, size int64) (io.Writer, error)) error

	// Parked are the providers' signals that could not be judged. nil: no rows
	// for them.
	Parked Parked

	// Record decides a command, for Parked and Consumers, and records what it leads to;
	// needed with them.
	Record func(ctx context.Context, why eventstore.Cause, c installation.Command) (recorded bool, err error)

	// Status says how the server is. nil: no row for it.
	Status func() wire.Status

	// Nodes are those of the cluster. nil: there is none, and no row for it.
	Nodes func(context.Context) []wire.Node

	// Promote makes a node of the cluster the leader, and returns once it is; needed
	// with Nodes. The error says why it is not.
	Promote func(ctx context.Context, node string) error

	// Consumers are the consumers of events on NATS. nil: no rows for them.
	Consumers Consumers

	// Routes are the routes in use. nil: no rows for them.
	Routes Routes

	// Ask reads at the provider, now, all that can be learned of a payment. The
	// refusal is no_connector; other errors are what the provider answered. nil: no
	// route has such a connector.
	Ask func(ctx context.Context, payment domain.ID) error

	// Settling is held while lines of settlement reports are recorded or resolved, so that each sees what
	// the others settled. On another node another may run: of two events of the same lines the stream
	// takes one. nil: nothing else settles.
	Settling sync.Locker

	// Running are the limits of the running server. nil: none runs.
	Running *domain.Limits

	// Looks says how a payment is followed at its provider. nil: no server runs.
	Looks func(domain.Payment) domain.Looks
}

func (a *admin) routes() []edge.Route {
	h := a.api.Handlers()
	const projects, project = "/admin/projects", "/admin/projects/{project}"
	table := []edge.Route{
		{Method: "POST", Path: projects, Operation: "adminCreateProject", Body: true, Handle: a.createProject},
		{Method: "GET", Path: projects, Operation: "adminListProjects", Handle: a.listProjects},
		{Method: "GET", Path: project, Operation: "adminGetProject", Handle: a.getProject},
		{Method: "POST", Path: project, Operation: "adminChangeProject", Body: true, Handle: a.changeProject},
		{Method: "POST", Path: project + "/disable", Operation: "adminDisableProject", Handle: a.disableProject},
		{Method: "POST", Path: project + "/sign-out", Operation: "adminSignOutProject", Handle: a.signOutProject},
		{Method: "POST", Path: project + "/keys", Operation: "adminIssueKey", Body: true, Handle: a.issueKey},
		{Method: "GET", Path: project + "/keys", Operation: "adminListKeys", Handle: a.listKeys},
		{Method: "PATCH", Path: project + "/keys/{key}", Operation: "adminRenameKey", Body: true, Handle: a.renameKey},
		{Method: "DELETE", Path: project + "/keys/{key}", Operation: "adminRevokeKey", Handle: a.revokeKey},
		{Method: "GET", Path: project + "/payments", Operation: "adminListPayments", Handle: h.ListPaymentRows},
		{Method: "POST", Path: project + "/erase", Operation: "adminEraseBefore", Body: true, Handle: a.eraseBefore},
		{Method: "GET", Path: "/admin/payments", Operation: "adminFindPayments", Handle: a.findPayments},
		{Method: "GET", Path: "/admin/payments/open", Operation: "adminListOpenWork", Handle: a.listOpenWork},
		{Method: "GET", Path: "/admin/payments/{id}", Operation: "adminGetPayment", Handle: a.getPayment},
		{Method: "GET", Path: "/admin/payments/{id}/proof", Operation: "adminGetReceipt", Handle: h.GetReceipt},
		{Method: "POST", Path: "/admin/payments/{id}/erase", Operation: "adminEraseDetails", Body: true, Handle: h.EraseDetails},
		{Method: "GET", Path: "/admin/balance", Operation: "adminBalance", Handle: a.balance},
		{Method: "GET", Path: "/admin/balance/statement", Operation: "adminStatement", Handle: a.statement},
		{Method: "GET", Path: "/admin/balance/late-funds", Operation: "adminLateFunds", Handle: a.lateFunds},
		{Method: "POST", Path: "/admin/payouts", Operation: "adminPayoutArrived", Body: true, Handle: a.payoutArrived},
		{Method: "GET", Path: "/admin/payouts", Operation: "adminListPayouts", Handle: a.listPayouts},
		{Method: "POST", Path: project + "/payouts", Operation: "adminPayMerchant", Body: true, Handle: a.payMerchant},
		{Method: "POST", Path: "/admin/payouts/{id}/undo", Operation: "adminUndoPayout", Body: true, Handle: a.undoPayout},
		{Method: "POST", Path: "/admin/payments/{id}/ask", Operation: "adminAskProvider", Handle: a.ask},
		{Method: "GET", Path: "/admin/suspense", Operation: "adminListSuspense", Handle: a.listSuspense},
		{Method: "POST", Path: "/admin/payments/{id}/returns", Operation: "adminCreateReturn", Body: true, Handle: a.createReturn},
		{Method: "POST", Path: "/admin/payments/{id}/settlements", Operation: "adminSettle", Body: true, Handle: a.settle},
		{Method: "POST", Path: "/admin/payments/{id}/disputes", Operation: "adminDispute", Body: true, Handle: a.dispute},
		{Method: "GET", Path: "/admin/events", Operation: "adminEvents", Endless: true, Handle: a.events},
		{Method: "GET", Path: "/admin/acts", Operation: "adminActs", Endless: true, Handle: a.acts},
		{Method: "POST", Path: "/admin/verify", Operation: "adminVerify", Body: true, Most: MaxVerifyRequest, Endless: true, Handle: a.verify},
		{Method: "POST", Path: "/admin/replay", Operation: "adminReplay", Body: true, Endless: true, Handle: a.replay},
	}
	table = append(table, a.settlementRoutes()...)
	if a.cfg.Status != nil {
		table = append(table, edge.Route{Method: "GET", Path: "/admin/status", Operation: "adminStatus", Handle: a.status})
	}
	if a.cfg.Nodes != nil {
		table = append(table, a.nodeRoutes()...)
	}
	if a.cfg.Backup != nil {
		table = append(table, edge.Route{Method: "GET", Path: "/admin/backup", Operation: "adminBackup", Endless: true, Handle: a.backup})
	}
	if a.cfg.Checkpoint != nil {
		table = append(table, edge.Route{Method: "GET", Path: "/admin/log/checkpoint", Operation: "adminCheckpoint", Endless: true, Handle: h.GetCheckpoint})
	}
	if a.cfg.Webhooks != nil {
		table = append(table, a.webhookRoutes()...)
	}
	if a.cfg.Parked != nil {
		table = append(table, a.parkedRoutes()...)
	}
	if a.cfg.Consumers != nil {
		table = append(table, a.consumerRoutes()...)
	}
	if a.cfg.Routes != nil {
		table = append(table, a.connectorRoutes()...)
	}
	if a.cfg.Sandbox != nil {
		table = append(
			table,
			edge.Route{Method: "POST", Path: "/admin/sandbox/payments/{id}", Operation: "adminSettlePayment", Body: true, Handle: h.SettlePayment},
			edge.Route{Method: "POST", Path: "/admin/sandbox/refunds/{id}", Operation: "adminSettleRefund", Body: true, Handle: h.SettleRefund},
		)
	}
	return table
}

// New returns the handler that is served on the unix socket in the data
// directory. It asks for no credentials: every process that can open the
// socket may do everything. It speaks JSON with the same problem documents as the API.
// The log names who acts: whom Payledger-Operator names, or else "unknown".
//
//	POST   /admin/projects              {"name","settings"?,"scopes"?} → 201 project with "key_id" and "api_key"
//	GET    /admin/projects              → {"data":[project…]}
//	GET    /admin/projects/{project}         → project
//	POST   /admin/projects/{project}         {"name"?,"settings"?: only members to change} → project
//	POST   /admin/projects/{project}/disable → project
//	POST   /admin/projects/{project}/sign-out → project: all sessions of its account have ended
//	POST   /admin/projects/{project}/keys    {"name"?,"scopes"?} → 201 {"key_id","name"?,"api_key","scopes"}
//	GET    /admin/projects/{project}/keys    → {"data":[{"key_id","name"?,"scopes","revoked"}…]}
//	PATCH  /admin/projects/{project}/keys/{key_id} {"name"} → 200 {"key_id","name"?,"scopes","revoked"}; a name "" takes it away
//	DELETE /admin/projects/{project}/keys/{key_id} → 204
//	GET    /admin/projects/{project}/payments?status=&currency=…&limit=&cursor= → {"data":[payment…],"next_cursor"}
//	GET    /admin/payments?reference=&route= → {"data":[wire.OperatorsPayment…]}, oldest first within a route
//	GET    /admin/payments/open?route=&limit=&cursor= → {"data":[wire.OpenWork…],"next_cursor"}, of at most limit payments, oldest first
//	GET    /admin/payments/{payment_id} → wire.OperatorsPayment
//	GET    /admin/payments/{payment_id}/proof → the payment's receipt, text
//	POST   /admin/payments/{payment_id}/ask → wire.OperatorsPayment, once its provider was asked
//	POST   /admin/payments/{payment_id}/returns {"reference"} → 201 domain.Return; 200 if there is one already
//	POST   /admin/payments/{payment_id}/settlements wire.Settle → 201 domain.Settlement; 200 if it was settled so before
//	GET    /admin/suspense?project=&limit=&cursor= → {"data":[wire.Suspense…],"next_cursor"}, of at most limit payments
//	POST   /admin/settlements wire.OpenSettlement → 201 wire.Settlement; 200 if the report is known already
//	POST   /admin/settlements/match wire.SettlementLines → {"data":[wire.SettlementLine…]}, recorded is nothing
//	POST   /admin/settlements/{id}/lines wire.SettlementLines → wire.Settlement, once they are recorded; those that were are passed over
//	POST   /admin/settlements/{id}/close → wire.Settlement, once all its lines are recorded
//	POST   /admin/settlements/{id}/lines/{number}/resolve wire.ResolveLine → {"line","to"}
//	GET    /admin/settlements?limit=&cursor= → {"data":[wire.Settlement…],"next_cursor"}, the newest first
//	GET    /admin/settlements/{id}?waiting=&limit=&cursor= → wire.SettlementPage
//	GET    /admin/reconcile?route=&as_of=&days= → wire.Reconciliation
//	POST   /admin/payouts {"route","report","amount","currency"?,"reference"} → 201 wire.OperatorsPayout; 200 if it was recorded before
//	POST   /admin/projects/{project}/payouts {"amount","currency"?,"reference"} → likewise
//	POST   /admin/payouts/{event_id}/undo {"reason"} → wire.OperatorsPayout
//	GET    /admin/payouts?project=&currency=&from=&to=&limit=&cursor= → {"data":[wire.OperatorsPayout…],"next_cursor"}
//	GET    /admin/status                → wire.Status, of the leader in a cluster
//	GET    /admin/cluster/status        → wire.Status of the node that is asked; work is known to the leader alone
//	GET    /admin/cluster               → {"data": [wire.Node]}
//	POST   /admin/cluster/{node}/promote → {"data": [wire.Node]}, once the node is the leader
//	GET    /admin/balance?project=&as_of= → {"position","time","balances","projects":[{"project_id","balances"}…]}
//	GET    /admin/balance/statement?project=&account=&currency=&from=&to=&limit=&cursor= → {"data":[posting…],"next_cursor"}
//	GET    /admin/balance/late-funds?project=&currency=&from=&to=&limit=&cursor= → the late funds that came to suspense, with reason and reference
//	GET    /admin/events?after=&project=&payment=&follow=true → JSON lines {"position","event"}
//	GET    /admin/events?whole={project} → likewise, with {"position","leaf"} for what does not concern the project
//	GET    /admin/acts?after=&project=  → JSON lines likewise: what operators did, and merchants' keys besides creating payments
//	GET    /admin/backup                → the event log's file, with Payledger-Position
//	POST   /admin/verify {"verifier_keys","checkpoints":[{"name","note","beside"}]} → JSON lines, see EvidenceLine
//	POST   /admin/replay {"check"?,"position"?,"time"?,"payment"?} → JSON lines, likewise
//	GET    /admin/log/checkpoint        → a fresh checkpoint, a signed note as text
//	POST   /admin/projects/{project}/webhook-endpoints {"url","kinds"?,"description"?} → 201 endpoint with "secret"
//	GET    /admin/projects/{project}/webhook-endpoints?limit=&cursor= → {"data":[endpoint…],"next_cursor"}
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
//	GET    /admin/projects/{project}/payments/{payment_id}/deliveries?state=&event_id=&limit=&cursor= → the same list, of all endpoints
//	GET    /admin/signals/parked?after=&reason=&limit= → domain.ParkedPage
//	POST   /admin/signals/parked/{id}/retry   → domain.SignalReply
//	POST   /admin/signals/parked/{id}/discard → 204
//	POST   /admin/signals/parked/discard?through= → {"discarded"}
//	POST   /admin/nats/consumers {"name","project_id"?} → 201 installation.NewNATSConsumer
//	GET    /admin/nats/consumers        → {"data":[installation.NATSConsumer…]}
//	POST   /admin/nats/consumers/{name}/reset {"position"} → {"name","position"}
//	DELETE /admin/nats/consumers/{name} → 204
//	GET    /admin/routes                → {"data":[wire.Route…]}
//	POST   /admin/routes/reload         → the same, once the routes file was read again
//	POST   /admin/routes/{route}/pause {"reason"?} → wire.Route
//	POST   /admin/routes/{route}/resume → wire.Route
//	POST   /admin/sandbox/payments/{id} {"outcome"} → payment
//	POST   /admin/sandbox/refunds/{id}  {"outcome"} → refund
//
// An api_key is shown once, in the answer that issues it; only its hash is stored. A stream of
// followed events ends with the request's context, when the server begins to stop or when the store
// is closed.
func New(cfg Config) (http.Handler, error) {
	api, err := merchant.New(cfg.Config)
	if err != nil {
		return nil, err
	}
	cfg.Config = api.Config()
	e := edge.New(cfg.Edge(cfg.Log, cfg.Metrics, "admin"))
	if cfg.Settling == nil {
		cfg.Settling = new(sync.Mutex)
	}
	a := &admin{cfg: cfg, api: api}
	router := edge.NewRouter(a.routes(), a.enter)
	return e.Wrap(func(x *edge.Exchange) {
		if err := cmp.Or(peer.Check(x.Request), identify(x)); err != nil {
			x.Fail(err)
			return
		}
		x.Dispatch(router)
	}), nil
}

func (a *admin) viewOf(p projects.Project) wire.Project {
	v := wire.Project{ProjectID: p.ID, Name: p.Name, Disabled: p.Disabled, Settings: p.Settings, Keys: merchant.KeysOf(p)}
	if a.cfg.Running != nil {
		v.Limits = wire.LimitsOf(p.Settings, *a.cfg.Running)
	}
	return v
}

func (a *admin) createProject(x *edge.Exchange) error {
	req, err := projectRequestOf(x.Body, domain.DefaultSettings(), "name", "settings", "scopes")
	if err != nil {
		return err
	}
	id := "prj_" + a.cfg.IDs.Next().String()
	p, err := a.api.ChangeProject(x.Context(), id, causeOf(x), projects.RegisterProject{Name: req.name, Settings: req.settings}, true)
	if err != nil {
		return err
	}
	p, key, err := a.api.NewKey(x.Context(), p.ID, causeOf(x), "", req.scopes)
	if err != nil {
		return err
	}
	v := a.viewOf(p)
	v.KeyID, v.APIKey = key.KeyID, key.APIKey
	x.Header().Set("Location", "/admin/projects/"+id)
	return x.Reply(http.StatusCreated, v)
}

func (a *admin) listProjects(x *edge.Exchange) error {
	all, err := a.cfg.Views.Projects(x.Context())
	if err != nil {
		return err
	}
	views := make([]wire.Project, 0, len(all))
	for _, p := range all {
		views = append(views, a.viewOf(p))
	}
	return x.Reply(http.StatusOK, map[string]any{"data": views})
}

func (a *admin) getProject(x *edge.Exchange) error {
	return x.Reply(http.StatusOK, a.viewOf(x.Project))
}

func (a *admin) changeProject(x *edge.Exchange) error {
	req, err := projectRequestOf(x.Body, x.Project.Settings, "name", "settings")
	if err != nil {
		return err
	}
	// Another operator may change other members meanwhile.
	edit := func(name *string, s *domain.Settings) {
		if again, err := projectRequestOf(x.Body, *s, "name", "settings"); err == nil {
			*s = again.settings
		}
		if req.named {
			*name = req.name
		}
	}
	p, err := a.api.ChangeProject(x.Context(), x.Project.ID, causeOf(x), projects.EditProject{Edit: edit}, false)
	return x.Answer(a.viewOf(p), err)
}

// signOutProject ends all sessions of the project's account.
func (a *admin) signOutProject(x *edge.Exchange) error {
	p, err := a.api.SignOutProject(x.Context(), x.Project.ID, causeOf(x))
	return x.Answer(a.viewOf(p), err)
}

func (a *admin) disableProject(x *edge.Exchange) error {
	p, err := a.api.ChangeProject(x.Context(), x.Project.ID, causeOf(x), projects.DisableProject{}, false)
	return x.Answer(a.viewOf(p), err)
}

func (a *admin) issueKey(x *edge.Exchange) error {
	req, err := projectRequestOf(x.Body, x.Project.Settings, "name", "scopes")
	if err != nil {
		return err
	}
	_, key, err := a.api.NewKey(x.Context(), x.Project.ID, causeOf(x), req.name, req.scopes)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusCreated, key)
}

func (a *admin) listKeys(x *edge.Exchange) error {
	return x.Reply(http.StatusOK, map[string]any{"data": merchant.KeysOf(x.Project)})
}

func (a *admin) renameKey(x *edge.Exchange) error {
	req, err := projectRequestOf(x.Body, x.Project.Settings, "name")
	if err != nil {
		return err
	}
	if !req.named {
		return domain.FieldErrors{{Field: "name", Code: domain.Required}}
	}
	p, err := a.api.ChangeProject(x.Context(), x.Project.ID, causeOf(x), projects.RenameKey{KeyID: x.Vars["key"], Name: req.name}, false)
	if err != nil {
		return err
	}
	k, _ := p.Key(x.Vars["key"])
	return x.Reply(http.StatusOK, merchant.KeyOf(k))
}

func (a *admin) revokeKey(x *edge.Exchange) error {
	if _, err := a.api.ChangeProject(x.Context(), x.Project.ID, causeOf(x), projects.RevokeKey{KeyID: x.Vars["key"]}, false); err != nil {
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// enter finds the project in the path.
func (a *admin) enter(x *edge.Exchange) (err error) {
	if id, named := x.Vars["project"]; named {
		x.Project, err = a.project(x, id)
	}
	return err
}

func (a *admin) project(x *edge.Exchange, id string) (projects.Project, error) {
	p, ok, err := a.cfg.Views.Project(x.Context(), id)
	if err == nil && !ok {
		err = &domain.Refusal{Code: domain.ProjectNotFound}
	}
	return p, err
}
