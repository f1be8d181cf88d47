// Package account is the merchant's personal account: the pages under
// /account. What they show and change goes through the operations of
// merchant.API and webhooks.API, with the Caller of the session's key. So a page
// can do nothing that its key could not do over the network: scopes, limits,
// idempotency and commands are the same. Only reads cost nothing of the
// project's budget, as pages have a limit of their own.
//
// # A page
//
// A page is a row of the table of pages (account.go), a method of visit, and a
// template in templates/ with texts in locales/. Before a row's method is
// called, the language and the session are known, the key of the session was
// found live, and of a form the origin and the token were checked. Somebody who
// is not signed in was led to sign in, unless the row is open.
//
//	{method: "GET", path: "refunds", serve: (*visit).listRefunds}      // {id} in a path: v.Vars["id"]
//
//	type refundsPage struct { pageData; Refunds []domain.RefundObject }
//
//	func (v *visit) listRefunds() error {
//		list, err := v.API.Refunds(v.Ctx(), v.Caller, url.Values{"limit": {"50"}})
//		if err != nil {
//			return err                           // the frame makes a page of it
//		}
//		page := refundsPage{pageData: v.pageData(v.Locale.T("refunds.title")), Refunds: list.Data}
//		return v.Render(http.StatusOK, "refunds.html", page)
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
//	v.Value("amount")                                     // a field
//	made, err := v.API.CreateRefund(v.Ctx(), v.Caller, req, v.IdempotencyKey())
//	if p := v.Refusal(err); p != nil {                    // something the reader can put right
//		page.Refuse(p)                                // fields to .Fields, the rest to .Alert
//		return v.Render(p.Status, "….html", page)
//	}
//	return v.Done("payments/"+id, "payment.made")         // 303 with a notice on the next page
//
// A form that makes something makes it once, however often and to how many servers it is
// sent. Nothing remembers that it was sent: the idempotency key, and v.Random of which a
// key or an endpoint is made, come of the form's token, and a rotation names the
// generation that it replaces. What else a form does must do no harm twice: it sets what
// is set, or sends a notification again. v.Leave goes on without a notice,
// v.PutNotice says something else, v.ShowSecret answers with a secret, v.CSV answers a
// list as a file.
package account
