package httpapi

import (
	"errors"
	"net/http"
	"strings"

	"payledger/domain/projects"
	"payledger/httpapi/account"
	"payledger/httpapi/checkout"
	"payledger/httpapi/docs"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/peer"
	"payledger/httpapi/webhooks"

	"github.com/gorilla/mux"
)

// api is the public handler.
type api struct {
	*edge.Server
	cfg    Config
	router *mux.Router
	pages  *docs.Pages
	m      *merchant.API
}

// routes is the table of routes of the public handler. The router tries one path after the other,
// so the most frequent ones are first.
func (a *api) routes() []edge.Route {
	h := a.m.Handlers()
	table := []edge.Route{
		{Method: "POST", Path: merchant.PaymentsPath, Operation: "createPayment", Scope: projects.PaymentsWrite, Body: true, Handle: h.CreatePayment},
		{Method: "GET", Path: merchant.PaymentsPath, Operation: "listPayments", Scope: projects.Read, Handle: h.ListPayments},
		{Method: "GET", Path: merchant.PaymentsPath + "/{id}", Operation: "getPayment", Scope: projects.Read, Handle: h.GetPayment},
		{Method: "GET", Path: merchant.PaymentsPath + "/{id}/events", Operation: "listPaymentEvents", Scope: projects.Read, Handle: h.ListPaymentEvents},
		{Method: "POST", Path: merchant.PaymentsPath + "/{id}/erase", Operation: "eraseDetails", Scope: projects.PaymentsWrite, Body: true, Handle: h.EraseDetails},
		{Method: "POST", Path: merchant.RefundsPath, Operation: "createRefund", Scope: projects.RefundsWrite, Body: true, Handle: h.CreateRefund},
		{Method: "GET", Path: merchant.RefundsPath, Operation: "listRefunds", Scope: projects.Read, Handle: h.ListRefunds},
		{Method: "GET", Path: merchant.RefundsPath + "/{id}", Operation: "getRefund", Scope: projects.Read, Handle: h.GetRefund},
	}
	table = append(table, webhooks.New(a.m).Routes("/v1")...)
	table = append(table, []edge.Route{
		{Method: "GET", Path: docs.Path + "/webhooks", Operation: "getWebhookDocs", Handle: a.pages.Text},
		{Method: "GET", Path: "/v1/balance", Operation: "getBalance", Scope: projects.Read, Handle: h.GetBalance},
		{Method: "GET", Path: "/v1/balance/statement", Operation: "listPostings", Scope: projects.Read, Handle: h.ListPostings},
		{Method: "GET", Path: "/v1/settlements", Operation: "listSettlements", Scope: projects.Read, Handle: h.ListSettlements},
		{Method: "GET", Path: "/v1/settlements/{id}", Operation: "getSettlement", Scope: projects.Read, Handle: h.GetSettlement},
		{Method: "GET", Path: "/v1/payouts", Operation: "listPayouts", Scope: projects.Read, Handle: h.ListPayouts},
		{Method: "GET", Path: "/v1/events", Operation: "listEvents", Scope: projects.Audit, Endless: true, Handle: h.ListEvents},
		{Method: "GET", Path: "/", Operation: "getLanding", Handle: a.pages.Landing},
		{Method: "GET", Path: "/problems/{code}", Operation: "getProblem", Handle: a.pages.Text},
		{Method: "GET", Path: "/openapi.yaml", Operation: "getOpenAPI", Handle: a.pages.OpenAPI},
		{Method: "GET", Path: "/docs", Operation: "getDocs", Handle: a.pages.Docs},
		{Method: "GET", Path: docs.Path + "/clients", Operation: "getClientDocs", Handle: a.pages.Text},
		{Method: "GET", Path: docs.Path + "/{version}/{file}", Operation: "getDocsFile", Handle: a.pages.File},
		{Method: "GET", Path: "/livez", Operation: "livez", Handle: a.livez},
		{Method: "GET", Path: "/readyz", Operation: "readyz", Handle: a.readyz},
		{Method: "GET", Path: merchant.LogPath + "/proof/inclusion", Operation: "getInclusionProof", Scope: projects.Audit, Handle: h.GetInclusionProof},
		{Method: "GET", Path: merchant.LogPath + "/proof/consistency", Operation: "getConsistencyProof", Scope: projects.Audit, Handle: h.GetConsistencyProof},
		{Method: "GET", Path: merchant.LogPath + "/tile/{tile:.+}", Operation: "getTile", Scope: projects.Audit, Handle: h.GetTile},
		{Method: "GET", Path: merchant.LogPath + "/checkpoint", Operation: "getCheckpoint", Scope: projects.Audit, Handle: h.GetCheckpoint},
		{Method: "GET", Path: merchant.PaymentsPath + "/{id}/proof", Operation: "getReceipt", Scope: projects.Audit, Handle: h.GetReceipt},
		{Method: "POST", Path: "/connectors/{route}", Operation: "notify", Handle: newNotified(a.cfg).notify},
	}...)
	if a.cfg.Sandbox != nil {
		table = append(
			table,
			edge.Route{Method: "POST", Path: "/v1/sandbox/payments/{id}", Operation: "settlePayment", Scope: projects.PaymentsWrite, Body: true, Handle: h.SettlePayment},
			edge.Route{Method: "POST", Path: "/v1/sandbox/refunds/{id}", Operation: "settleRefund", Scope: projects.RefundsWrite, Body: true, Handle: h.SettleRefund},
		)
	}
	return table
}

// New returns the public handler: the merchants' API, the payment page, the
// account, the problem pages, the documentation, /livez and /readyz.
func New(cfg Config) (http.Handler, error) {
	a, err := newAPI(cfg)
	if err != nil {
		return nil, err
	}
	return a.Wrap(a.serve), nil
}

func newAPI(cfg Config) (*api, error) {
	m, err := merchant.New(cfg.Config)
	if err != nil {
		return nil, err
	}
	cfg.Config = m.Config()
	if cfg.Account == nil || cfg.Ready == nil || cfg.Degraded == nil || len(cfg.RetrySchedule) == 0 || cfg.Connectors == nil ||
		cfg.Webhooks == nil || cfg.KeyTimes == nil || cfg.Checkpoint == nil {
		return nil, errors.New("httpapi: Account, Ready, Degraded, RetrySchedule, Connectors, Webhooks, KeyTimes and Checkpoint are needed")
	}
	public := cfg.Edge(cfg.Log, cfg.Metrics, "public")
	public.Prefix = cfg.Prefix()
	public.Untraced = []string{"/livez", "/readyz"} // asked every few seconds
	a := &api{Server: edge.New(public), cfg: cfg, m: m}
	if a.pages, err = docs.New(docs.Config{PublicURL: cfg.PublicURL, Prefix: cfg.Prefix(), Account: account.Path, RetrySchedule: cfg.RetrySchedule}); err != nil {
		return nil, err
	}
	page, err := checkout.New(checkout.Config{
		Views: cfg.Views, Links: cfg.Links, Now: cfg.Now, PublicURL: cfg.PublicURL, Limits: cfg.Limits,
		Sandbox: cfg.Sandbox, Attempts: cfg.Attempts,
	})
	if err != nil {
		return nil, err
	}
	a.router = edge.NewRouter(a.routes(), m.Enter)
	a.router.PathPrefix("/p/").Handler(edge.Pages("payPage", page))
	pages, err := account.New(m, cfg.Account)
	if err != nil {
		return nil, err
	}
	h := edge.Pages("account", pages)
	a.router.Path(account.Path).Handler(h)
	a.router.PathPrefix(account.Path + "/").Handler(h)
	return a, nil
}

// serve asks for credentials before it says what exists: under a version of
// the API every path is closed to strangers.
func (a *api) serve(x *edge.Exchange) {
	path := x.Request.URL.Path + "/"
	if err := peer.Check(x.Request); err != nil && !strings.HasPrefix(path, "/p/") && !strings.HasPrefix(path, account.Path+"/") { // pages say it themselves
		x.Fail(err)
		return
	}
	if _, versioned := edge.Version(x.Request.URL.EscapedPath()); versioned {
		if err := a.m.Authenticate(x); err != nil {
			x.Fail(err)
			return
		}
	}
	x.Dispatch(a.router)
}
