// Package account is the merchant's personal account: the pages under /account. What they show and
// change goes through the operations of merchant.API and webhooks.API, with the Caller of the
// session's key. So a page can do nothing that its key could not do over the API: scopes, limits,
// idempotency and commands are the same. Only reads do not count against the project's limit, as
// pages have a separate one.
//
// # A page
//
// A page is a row of the table of pages (account.go), a method of visit, and a template in
// templates/ with texts in locales/. Before a row's method is called, the language and the session
// are loaded, the session's key is checked to be live, and a form's origin and token are checked. A
// visitor who is not signed in is redirected to sign in, unless the row is open.
//
//	{method: "GET", path: "refunds", serve: (*visit).listRefunds}      // {id} in a path: v.Vars["id"]
//
//	type refundsPage struct { pageData; Refunds []wire.RefundRow }
//
//	func (v *visit) listRefunds() error {
//		list, err := merchant.PageOf(v.API.Refunds)(v.Ctx(), v.Caller, url.Values{"limit": {"50"}})
//		if err != nil {
//			return err                           // a page says it
//		}
//		page := refundsPage{pageData: v.pageData(v.Locale.T("refunds.title")), Refunds: list.Data}
//		return v.Render(http.StatusOK, "refunds.html", page)
//	}
//
//	{{template "desk-top" .}}
//	<main id="main">{{template "desk-notices" .}}<div class="head"><h1>…</h1></div> … </main>
//	{{template "desk-end" .}}
//
// Links are {{.Root}}payments/ID; the root ends in a slash and is relative. {{.Who.May
// "refunds:write"}} reports whether the key has a scope. An entry of the navigation is in
// navigation and shows once its page is in the table.
//
// # A form
//
//	<form method="post" action="{{.Root}}…">{{.Form}} … {{with .Field "amount"}}<p class="error">…</p>{{end}}</form>
//
// {{.Form}} is the token; each form on a page has its own. In the method:
//
//	v.Value("amount")                                     // a field
//	made, err := v.API.CreateRefund(v.Ctx(), v.Caller, req, v.IdempotencyKey())
//	if p := v.Refusal(err); p != nil {                    // something the reader can put right
//		page.Refuse(p)                                // fields to .Fields, the rest to .Alert
//		return v.Render(p.Status, "….html", page)
//	}
//	return v.Done("payments/"+id, "payment.made")         // 303 with a notice on the next page
//
// A form that creates something creates it once, however often and to how many servers it is sent.
// No state says that it was sent: the idempotency key, and v.Random, from which a key or an
// endpoint is derived, come from the form's token, and a rotation names the generation that it
// replaces. Other forms must be harmless when they are sent twice: they set a value, or send a
// notification again. v.Leave redirects without a notice, v.PutNotice sets another notice,
// v.ShowSecret answers with a secret, replyCSV answers a list as a file.
package account
