package account

import (
	"embed"
	"slices"

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
	path   string // below Path, "" for Path itself; {name} stands for one segment
	serve  func(*visit) error
}

// pages is the table of pages. A path of fixed text comes before one with a
// variable in the same place.
func pages(c Config) []page {
	return slices.Concat(
		overviewPages(), paymentPages(c), refundPages(), webhookPages(c), keyPages(), balancePages(), eventPages(), settingsPages(),
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
