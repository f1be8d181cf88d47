// Package account is the merchant's personal account: the pages under
// /account. What they show and change goes through the operations of
// merchant.API and webhooks.API, which take the caller of the session. So a
// page can do nothing that its key could not do over the network: the same
// scopes, limits, idempotency and commands hold.
//
// # A page
//
// A page is a row of the table of pages (account.go), a method of visit, and a
// template in templates/ with words in locales/. The shell has done everything
// before a row's method is called: the language, the session, the check of
// where a form comes from, and that its token was not used before. Whoever is
// not signed in was led to sign in, unless the row is open.
//
//	{method: "GET", path: "refunds", serve: (*visit).listRefunds}      // {id} in a path: v.vars["id"]
//
//	type refundsPage struct { pageData; Refunds []domain.RefundObject }
//
//	func (v *visit) listRefunds() error {
//		list, err := v.API.Refunds(v.ctx(), v.caller, url.Values{"limit": {"50"}})
//		if err != nil {
//			return err                           // becomes a page of its own
//		}
//		page := refundsPage{pageData: v.pageData(v.locale.T("refunds.title")), Refunds: list.Data}
//		return v.render(http.StatusOK, "refunds.html", page)
//	}
//
//	{{template "desk-top" .}}
//	<main id="main">{{template "desk-notices" .}}<div class="head"><h1>…</h1></div> … </main>
//	{{template "desk-end" .}}
//
// Links are {{.Root}}payments/ID; the root ends in a slash and is relative.
// {{.Who.May "refunds:write"}} tells whether the key has a scope. An entry of
// the navigation is in navigation and shows once its page is in the table.
//
// # A form
//
//	<form method="post" action="{{.Root}}…">{{.Form}} … {{with .Field "amount"}}<p class="error">…</p>{{end}}</form>
//
// {{.Form}} is the token; each form on a page has one of its own. In the method:
//
//	v.value("amount")                                     // a field
//	out, err := v.API.CreateRefund(v.ctx(), v.caller, …)
//	if p := v.refusal(err); p != nil {
//		page.refuse(p)                                // fields to .Fields, the rest to .Alert
//		return v.render(p.Status, "….html", page)
//	}
//	return v.done("payments/"+id, "payment.made")         // 303 with a notice on the next page
//
// A payment or refund that a form makes has an idempotency key made of its token.
// A form that is sent again leads nowhere (409), one that is sent twice at
// once leads to one thing, to which both are sent on. v.leave goes on without
// a notice, v.putNotice says something else.
package account
