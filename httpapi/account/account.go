package account

import (
	"embed"

	"payledger/httpapi/account/frame"
	"payledger/httpapi/edge"
)

//go:embed templates locales
var files embed.FS

// Path is where the handler is mounted; everything below it is the account's.
const Path = frame.Path

// Config is what the account works with.
type Config = frame.Config

// Keys authenticate cookies and forms.
type Keys = frame.Keys

// NewKeys derives the keys from the newest master key.
func NewKeys(master [32]byte) (*Keys, error) { return frame.NewKeys(master) }

// page is one row of the table of pages.
type page struct {
	method string // GET, which HEAD goes with, or POST
	path   string // below Path, "" for Path itself; {name} matches one segment
	serve  func(*visit) error
}

// pages is the table of pages. A path of fixed text comes before one with a
// variable in the same place.
func pages(c Config) []page {
	all := []page{
		{method: "GET", path: "", serve: (*visit).showOverview},
		{method: "GET", path: "search", serve: (*visit).search},
		{method: "GET", path: "payments", serve: (*visit).listPayments},
		{method: "GET", path: "payments.csv", serve: (*visit).paymentsCSV},
		{method: "GET", path: "payments/new", serve: (*visit).newPayment},
		{method: "POST", path: "payments/new", serve: (*visit).createPayment},
		{method: "GET", path: "payments/{id}", serve: (*visit).showPayment},
		{method: "GET", path: "payments/{id}/proof", serve: (*visit).proof},
		{method: "GET", path: "payments/{id}/refund", serve: (*visit).confirmRefund},
		{method: "POST", path: "payments/{id}/refund", serve: (*visit).refund},
		{method: "POST", path: "payments/{id}/settle", serve: (*visit).settle},
		{method: "GET", path: "refunds", serve: (*visit).listRefunds},
		{method: "GET", path: "refunds.csv", serve: (*visit).refundsCSV},
		{method: "GET", path: "keys", serve: (*visit).listKeys},
		{method: "GET", path: "keys/new", serve: (*visit).newKey},
		{method: "POST", path: "keys/new", serve: (*visit).createKey},
		{method: "GET", path: "keys/{key}/rename", serve: (*visit).nameKey},
		{method: "POST", path: "keys/{key}/rename", serve: (*visit).renameKey},
		{method: "GET", path: "keys/{key}/revoke", serve: (*visit).confirmRevoke},
		{method: "POST", path: "keys/{key}/revoke", serve: (*visit).revokeKey},
		{method: "GET", path: "balance", serve: (*visit).showBalance},
		{method: "GET", path: "balance.csv", serve: (*visit).balanceCSV},
		{method: "GET", path: "payouts.csv", serve: (*visit).payoutsCSV},
		{method: "GET", path: "events", serve: (*visit).listEvents},
		{method: "GET", path: "events/live", serve: (*visit).followEvents},
		{method: "GET", path: "settings", serve: (*visit).showSettings},
	}
	if c.Webhooks == nil {
		return all
	}
	const one = "webhooks/{endpoint}"
	return append(
		all,
		page{method: "POST", path: "payments/{id}/resend", serve: (*visit).resend},
		page{method: "GET", path: "webhooks", serve: (*visit).listEndpoints},
		page{method: "GET", path: "webhooks/new", serve: (*visit).newEndpoint},
		page{method: "POST", path: "webhooks/new", serve: (*visit).addEndpoint},
		page{method: "GET", path: one, serve: (*visit).showEndpoint},
		page{method: "GET", path: one + "/edit", serve: (*visit).editEndpoint},
		page{method: "POST", path: one + "/edit", serve: (*visit).changeEndpoint},
		page{method: "GET", path: one + "/rotate", serve: (*visit).confirmRotate},
		page{method: "POST", path: one + "/rotate", serve: (*visit).rotateSecret},
		page{method: "GET", path: one + "/remove", serve: (*visit).confirmRemove},
		page{method: "POST", path: one + "/remove", serve: (*visit).removeEndpoint},
		page{method: "POST", path: one + "/enable", serve: (*visit).enableEndpoint},
		page{method: "POST", path: one + "/disable", serve: (*visit).disableEndpoint},
		page{method: "POST", path: one + "/test", serve: (*visit).testEndpoint},
		page{method: "POST", path: one + "/recover", serve: (*visit).recoverDeliveries},
		page{method: "GET", path: one + "/deliveries/{event}", serve: (*visit).showDelivery},
		page{method: "POST", path: one + "/deliveries/{event}/resend", serve: (*visit).resendDelivery},
	)
}

func navigation() []frame.Tab {
	return []frame.Tab{
		{Path: "", Word: "nav.overview"},
		{Path: "payments", Word: "nav.payments"},
		{Path: "refunds", Word: "nav.refunds"},
		{Path: "webhooks", Word: "nav.webhooks"},
		{Path: "keys", Word: "nav.keys"},
		{Path: "balance", Word: "nav.balance"},
		{Path: "events", Word: "nav.events"},
		{Path: "settings", Word: "nav.settings"},
	}
}

// visit is one request for a page.
type visit struct{ *frame.Visit }

// pageData is what every template is filled with; data of a page embeds it.
type pageData struct{ frame.PageData }

// pageData begins the data of a page. The title is shown in the window's title as
// well.
func (v *visit) pageData(title string) pageData { return pageData{v.PageData(title)} }

// New returns the handler of everything at and below Path, which edge.Pages
// serves. It expects the request's path unchanged, and is safe for concurrent
// use.
func New(c Config) (func(*edge.Exchange) error, error) {
	p := frame.Pages{Files: files, Tabs: navigation()}
	for _, one := range pages(c) {
		p.Routes = append(p.Routes, frame.Route{
			Method: one.method, Path: one.path, Serve: func(v *frame.Visit) error { return one.serve(&visit{v}) },
		})
	}
	return frame.New(c, p)
}
