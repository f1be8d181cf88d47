package account

// page is one row of the table of pages.
type page struct {
	method string // GET, which HEAD goes with, or POST
	path   string // below Path, "" for Path itself; {name} matches one segment
	serve  func(*visit) error

	open bool // also without being signed in
}

// pages is the table of pages. A path of fixed text comes before one with a
// variable in the same place.
func pages() []page {
	const one = "webhooks/{endpoint}"
	return []page{
		{method: "GET", path: "signin", open: true, serve: (*visit).showSignIn},
		{method: "POST", path: "signin", open: true, serve: (*visit).signIn},
		{method: "GET", path: "session", serve: (*visit).showSession},
		{method: "POST", path: "signout", serve: (*visit).signOut},
		{method: "POST", path: "signout-everywhere", serve: (*visit).signOutEverywhere},
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
		{method: "GET", path: "settings", serve: (*visit).showSettings},
		{method: "GET", path: "webhooks", serve: (*visit).listEndpoints},
		{method: "GET", path: "webhooks/new", serve: (*visit).newEndpoint},
		{method: "POST", path: "webhooks/new", serve: (*visit).addEndpoint},
		{method: "GET", path: one, serve: (*visit).showEndpoint},
		{method: "GET", path: one + "/edit", serve: (*visit).editEndpoint},
		{method: "POST", path: one + "/edit", serve: (*visit).changeEndpoint},
		{method: "GET", path: one + "/rotate", serve: (*visit).confirmRotate},
		{method: "POST", path: one + "/rotate", serve: (*visit).rotateSecret},
		{method: "GET", path: one + "/remove", serve: (*visit).confirmRemove},
		{method: "POST", path: one + "/remove", serve: (*visit).removeEndpoint},
		{method: "POST", path: one + "/enable", serve: (*visit).enableEndpoint},
		{method: "POST", path: one + "/disable", serve: (*visit).disableEndpoint},
		{method: "POST", path: one + "/test", serve: (*visit).testEndpoint},
		{method: "POST", path: one + "/recover", serve: (*visit).recoverDeliveries},
		{method: "GET", path: one + "/deliveries/{event}", serve: (*visit).showDelivery},
		{method: "POST", path: one + "/deliveries/{event}/resend", serve: (*visit).resendDelivery},
	}
}

// tab is an entry of the navigation of every page: a path of the table and the id of its text.
type tab struct{ path, word string }

func tabs() []tab {
	return []tab{
		{"", "nav.overview"},
		{"payments", "nav.payments"},
		{"refunds", "nav.refunds"},
		{"webhooks", "nav.webhooks"},
		{"keys", "nav.keys"},
		{"balance", "nav.balance"},
		{"events", "nav.events"},
		{"settings", "nav.settings"},
	}
}
