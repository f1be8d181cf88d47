package httpapi

import (
	"net/http"
	"slices"

	"github.com/gorilla/mux"

	"payledger/domain"
	"payledger/httpapi/account"
	"payledger/httpapi/checkout"
)

// api is the public handler.
type api struct {
	*edge
	cfg    Config
	router *mux.Router
	inner  *mux.Router // of requests from this process
	pages  *pages
	m      *merchants
}

// routes is the table of routes of the public handler. The router tries one
// path after the other, so what is asked for most stands first.
func (a *api) routes() []route {
	table := []route{
		{method: "POST", path: paymentsPath, operation: "createPayment", scope: domain.PaymentsWrite, body: true, handle: a.m.createPayment},
		{method: "GET", path: paymentsPath, operation: "listPayments", scope: domain.Read, handle: a.m.listPayments},
		{method: "GET", path: paymentsPath + "/{id}", operation: "getPayment", scope: domain.Read, handle: a.m.getPayment},
		{method: "GET", path: paymentsPath + "/{id}/events", operation: "listPaymentEvents", scope: domain.Read, handle: a.m.listPaymentEvents},
		{method: "POST", path: refundsPath, operation: "createRefund", scope: domain.RefundsWrite, body: true, handle: a.m.createRefund},
		{method: "GET", path: refundsPath, operation: "listRefunds", scope: domain.Read, handle: a.m.listRefunds},
		{method: "GET", path: refundsPath + "/{id}", operation: "getRefund", scope: domain.Read, handle: a.m.getRefund},
	}
	if a.cfg.Webhooks != nil {
		table = append(table, a.webhookRoutes()...)
	}
	table = append(table, []route{
		{method: "GET", path: "/v1/balance", operation: "getBalance", scope: domain.Read, handle: a.m.balance},
		{method: "GET", path: "/v1/balance/statement", operation: "listPostings", scope: domain.Read, handle: a.m.statement},
		{method: "GET", path: "/v1/events", operation: "listEvents", scope: domain.Audit, endless: true, handle: a.m.feed},
		{method: "GET", path: "/problems/{code}", operation: "getProblem", handle: a.pages.problem},
		{method: "GET", path: "/openapi.yaml", operation: "getOpenAPI", handle: a.pages.openAPI},
		{method: "GET", path: "/docs", operation: "getDocs", handle: a.pages.docs},
		{method: "GET", path: "/docs/{asset}", operation: "getDocsAsset", handle: a.pages.docs},
		{method: "GET", path: "/livez", operation: "livez", handle: a.livez},
		{method: "GET", path: "/readyz", operation: "readyz", handle: a.readyz},
	}...)
	table = append(table, a.logRoutes()...)
	if a.cfg.Sandbox != nil {
		table = append(
			table,
			route{method: "POST", path: "/v1/sandbox/payments/{id}", operation: "settlePayment", scope: domain.PaymentsWrite, body: true, handle: a.m.settlePayment},
			route{method: "POST", path: "/v1/sandbox/refunds/{id}", operation: "settleRefund", scope: domain.RefundsWrite, body: true, handle: a.m.settleRefund},
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
	return a.wrap(a.serve), nil
}

func newAPI(cfg Config) (*api, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	e, err := newEdge(cfg.edge(cfg.Log, cfg.Metrics, "public"))
	if err != nil {
		return nil, err
	}
	m, err := newMerchant(cfg.merchantConfig)
	if err != nil {
		return nil, err
	}
	a := &api{edge: e, cfg: cfg, m: m}
	if a.pages, err = newPages(cfg.docs()); err != nil {
		return nil, err
	}
	page, err := checkout.New(checkoutConfig(cfg))
	if err != nil {
		return nil, err
	}
	a.router = newRouter(a.routes(), m.enter)
	a.router.PathPrefix("/p/").Handler(labelled("payPage", page))
	a.inner = newRouter(slices.Concat(a.routes(), a.accountRoutes()), m.enter)
	if cfg.Account != nil {
		pages, err := account.New(account.Config{
			Call: a.call, Stream: a.stream, SignIn: a.signIn, File: cfg.Account, Now: cfg.Now, PublicURL: cfg.PublicURL,
			Webhooks: cfg.Webhooks != nil, Log: cfg.Log, Limit: accountLimit(cfg),
		})
		if err != nil {
			return nil, err
		}
		h := labelled("account", asPage(pages))
		a.router.Path(account.Path).Handler(h)
		a.router.PathPrefix(account.Path + "/").Handler(h)
	}
	return a, nil
}

// docs is what the documents say of this program.
func (c Config) docs() docsConfig {
	d := docsConfig{PublicURL: c.PublicURL, Prefix: c.prefix()}
	if c.Webhooks != nil {
		d.RetrySchedule = c.RetrySchedule
	}
	return d
}

// serve asks for credentials before it says what exists: under a version of
// the API every path is closed to strangers.
func (a *api) serve(x *exchange) {
	if _, versioned := version(x.r.URL.EscapedPath()); versioned {
		if err := a.m.authenticate(x); err != nil {
			x.fail(err)
			return
		}
	}
	x.dispatch(a.router)
}

// logRoutes are the rows of the log as evidence.
func (a *api) logRoutes() []route {
	table := []route{
		{method: "GET", path: logPath + "/proof/inclusion", operation: "getInclusionProof", scope: domain.Audit, handle: a.m.inclusion},
		{method: "GET", path: logPath + "/proof/consistency", operation: "getConsistencyProof", scope: domain.Audit, handle: a.m.consistency},
		{method: "GET", path: logPath + "/tile/{tile:.+}", operation: "getTile", scope: domain.Audit, handle: a.m.tile},
	}
	if a.cfg.Checkpoint != nil {
		table = append(table, route{
			method: "GET", path: logPath + "/checkpoint", operation: "getCheckpoint", scope: domain.Audit, handle: a.m.checkpoint,
		})
	}
	return table
}

// webhookRoutes are the rows of a project's own key, and the page that
// explains them. They come before /docs/{asset}.
func (a *api) webhookRoutes() []route {
	h := a.m.hooks()
	return append(
		h.routes(webhooksPath),
		route{
			method: "GET", path: paymentsPath + "/{id}/deliveries", operation: "listPaymentDeliveries", scope: domain.Read,
			handle: h.on(h.ofPayment("id")),
		},
		route{method: "GET", path: docsPath + "/webhooks", operation: "getWebhookDocs", handle: a.pages.webhooks},
	)
}

// accountPath is before what the account needs and programs of merchants do
// not. Nothing under it can be reached from the network: its rows are in the
// table of inner requests only.
const accountPath = "/account-api"

// accountRoutes is that part of the table. Days are those of UTC.
//
//	GET    /account-api/session → sessionView
//	GET    /account-api/keys → {"data":[accountKey…]}, newest first
//	POST   /account-api/keys {"scopes"} → 201 {"key_id","scopes","revoked","api_key"}: the secret is told here only
//	POST   /account-api/keys/{key_id}/revoke {"confirm"?: true} → accountKey; 409 confirmation_required
//	GET    /account-api/overview?from=2026-11-01&to=2026-11-30 → overviewView; both days are part of it
//	GET    /account-api/totals?… the filters of GET /v1/payments → totalsView
//	GET    /account-api/alerts → {"data":[alertView…]}, the most urgent first
//	GET    /account-api/payments/{id} → paymentFacts
//	GET    /account-api/lookup?id= → {"data":[placeView…]}, empty when it is nothing of the project's
func (a *api) accountRoutes() []route {
	const keys, read, write = accountPath + "/keys", domain.Read, domain.PaymentsWrite
	return []route{
		{method: "GET", path: accountPath + "/session", operation: "accountSession", handle: a.m.accountSession},
		{method: "GET", path: keys, operation: "accountKeys", scope: read, handle: a.m.accountKeys},
		{method: "POST", path: keys, operation: "accountIssueKey", scope: write, body: true, handle: a.m.accountIssueKey},
		{method: "POST", path: keys + "/{key_id}/revoke", operation: "accountRevokeKey", scope: write, body: true, optional: true, handle: a.m.accountRevokeKey},
		{method: "GET", path: accountPath + "/overview", operation: "accountOverview", scope: read, handle: a.m.accountOverview},
		{method: "GET", path: accountPath + "/totals", operation: "accountTotals", scope: read, handle: a.m.accountTotals},
		{method: "GET", path: accountPath + "/alerts", operation: "accountAlerts", scope: read, handle: a.m.accountAlerts},
		{method: "GET", path: accountPath + "/payments/{id}", operation: "accountPayment", scope: read, handle: a.m.accountPayment},
		{method: "GET", path: accountPath + "/lookup", operation: "accountLookup", scope: read, handle: a.m.accountLookup},
	}
}
