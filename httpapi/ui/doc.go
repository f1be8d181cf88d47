// Package ui holds the parts that all pages share: the customer's payment page, the merchant's
// account and the pages that explain the API. It has texts, styles and headers, and nothing of a
// page's content.
//
// # A page
//
// A handler makes one Site with its texts and parses its templates with it:
//
//	//go:embed templates locales
//	var files embed.FS
//
//	site, err := ui.New(files)                              // reads locales/*.toml
//	pages, err := site.Templates(files, "templates/*.html") // html/template
//
// What a template is filled with embeds a Page, so that the methods of Locale
// are at hand in it. For each request
//
//	ui.Secure(w.Header())                       // before anything is written
//	l := site.Locale(r)                         // ?lang=, else Accept-Language
//	l := site.RememberedLocale(w, r, "/account") // ?lang= and a cookie, else Accept-Language
//	page := site.Page(r, l, "/account/", title) // Root points at /account/
//	err := ui.Render(w, http.StatusOK, pages, "payments.html", data)
//
// and the files of the pages are served below that root:
//
//	if name, ok := strings.CutPrefix(rest, ui.AssetFolder); ok && site.ServeAsset(w, r, name) { return }
//
// They are compressed (File) and kept by browsers for a year, under names that
// change with their content.
//
// A template of a page is
//
//	{{template "ui-head" .}}<body class="…">…{{template "ui-languages" .}}</body></html>
//
// where ui-head is everything up to and with </head> (title, icon, stylesheet, script; with
// Page.Refresh also a reload for browsers without script) and ui-languages the switch, whose links
// keep the rest of the query. Every address must be relative, or begin with Page.Root, because a
// proxy may serve the program under another path.
//
// # Words
//
// Words are in locales/NAME.en.toml and locales/NAME.ru.toml of the package that uses them, as
// messages of go-i18n: a key is a word's id, a table is a prefix (`[refund]` `title = "…"` is
// "refund.title"), and a table of the keys one, few, many and other is a message with plural forms.
// The keys id, description, hash, zero, one, two, few, many and other are go-i18n's and name no
// word. {{.Name}} in a message is an argument.
//
//	{{.T "refund.title"}}                       a word
//	{{.T "refund.asked" "Amount" .Sum}}         with arguments, in pairs
//	{{.Plural "refund.count" .N}}               with {{.Count}}, the number as it is written here
//
// locales/glossary.toml of this package holds the terms of all pages, each with its
// one translation; uitest.Glossary checks that no text uses another word.
//
// uitest.Words checks that each id is in every language, with the plural forms and arguments it
// needs, and is used.
//
// # Values
//
//	{{.Amount .Sum .Currency}}    1 234 567,50 ₽        ₽1,234,567.50
//	{{.Number 1234567}}           1 234 567             1,234,567
//	{{.Percent 2 3}}              66,7 %                66.7%
//	{{.Moment .At}}               20 ноября 2026 г., 10:15 UTC
//	{{.Day .At}}                  20 ноября 2026 г.
//	{{.Left .Duration}}           1 день 2 часа
//	{{.Offset .At}}               UTC+3
//	{{.Time .At}}                 a <time> with Moment in it, which the script turns to the reader's zone
//	{{.ShortTime .At}}            the same, shorter, for tables: 20.11.2026, 10:15 UTC
//	{{.NearTime .At}}             the same without the year: 20 ноября, 10:15 UTC
//	{{.Badge .Status}}            a status with its word "status.<status>" and its tone
//	{{.Tag "good" .Text}}         the same look with any text; tones: good bad wait quiet
//	{{.Copyable .ID}}             an id in monospace with a button that copies it
//	{{qr .URL}}                   a QR code as inline SVG (a template function; QR in Go)
//	{{asset "ui.css"}}            the name under which a file is served, to be put after Root
//
// # Components
//
// The stylesheet speaks of elements and these classes. Lengths are multiples
// of 8 px, colours are custom properties of :root (see the head of ui.css), and
// nothing is said by colour alone.
//
//	<body class="solo">                      one narrow column in the middle (payment, sign-in)
//	<body class="doc">                       text to read: main with headings, pre, table, dl.terms
//	<body class="desk">                      the account: header.top, nav.rail next to main
//	  <a class="skip" href="#main">…</a>     first in body, seen when focused
//	  <header class="top"><a class="brand">…</a> …</header>
//	  <nav class="rail"><a href aria-current="page">…</a></nav>
//	  <main id="main"><div class="head"><h1>…</h1><div class="actions">…</div></div> …</main>
//	<section class="card"><h2>…</h2>…</section>
//	<div class="grid">…cards…</div>           as many in a row as fit
//	<div class="stats"><div class="stat"><span class="label">…</span><strong class="value">…</strong><small>…</small></div></div>
//	<a class="button"> <button>               plain; with class primary, danger, quiet, small
//	<button class="link">                     looks like a link
//	<div class="actions">…buttons…</div>      a row that wraps
//	<div class="field"><label for="x">…</label><input id="x" aria-describedby="x-hint x-error">
//	  <p class="hint" id="x-hint">…</p><p class="error" id="x-error">…</p></div>   with class bad on .field when wrong
//	<fieldset class="field"><legend>…</legend><label class="check"><input type="checkbox"> …</label></fieldset>
//	<form class="find"><label>…<input id="find"><kbd hidden data-jump="find">/</kbd><button>…</form>   a search, with its key inside the field
//	<form class="filters">…fields…<div class="actions">…</div></form>   fields in a row; with class short the buttons too
//	<div class="scroll"><table class="data"><thead>…<tbody><tr><td data-label="…">…</td><td class="num" …>
//	                                          becomes cards on small screens; data-label is then the column's name
//	<tr class="total">, <td class="num">      sums, figures aligned at the right
//	<dl class="facts"><div><dt>…</dt><dd>…</dd></div></dl>
//	<ol class="timeline"><li><span class="what">…</span> <time>…</time> <p>…</p></li></ol>
//	<div class="alert good|bad|warn|info" role="status or alert"><p><strong>…</strong> …</p></div>
//	<div class="empty"><h2>…</h2><p>…</p><a class="button primary">…</a></div>
//	<nav class="pager"><a class="button" rel="prev">…</a><a class="button" rel="next">…</a></nav>
//	<nav class="tabs"><a href aria-current="page">…</a></nav>
//	<pre class="code">…</pre>, <code>, <span class="mono">
//	<p class="secret"><code>…</code></p>      something shown once
//	<figure class="qr">{{qr .URL}}<figcaption>…</figcaption></figure>
//	<figure class="chart">…svg…<figcaption>…</figcaption></figure>
//	<main class="confirm"><section class="card">question, facts, form.actions</section></main>
//	.muted .strong .nowrap .visually-hidden .print-only .no-print
//
// # What the script adds
//
// ui.js works on attributes. Without it every page works as it is.
//
//	<button type="button" hidden data-copy="TEXT">   shown with script; copies TEXT (Copyable makes one)
//	<button type="button" hidden data-print>         shown with script; prints
//	<kbd hidden data-jump="find">/</kbd>             shown with script; the key / leads to the field of that id
//	<time datetime data-local="moment|near|short|day">    written in the reader's time zone
//	<span data-closes-in="90">                       counts down
//	<form> with data-again to be left alone          a form is sent once however often it is pressed within 15 seconds
//	<main data-live="URL" data-state="…" data-final="false">
//	                                                 while the page is seen it asks data-live every two seconds for
//	                                                 {"state", "final", "closes_in", "left"} as JSON. When the state
//	                                                 differs from data-state, the page is loaded again and every element
//	                                                 with data-swap and an id replaced by its new one
//	<ol data-feed="POSITION">                        while the page is seen it is asked every five seconds for its rows
//	                                                 ?after=POSITION, and if there are some loaded again: rows whose
//	                                                 id is new are put in front, those that left it go, and every
//	                                                 element with data-swap and an id is replaced by its new one
//	<button type="button" hidden data-feed-pause data-resume="Go on">   holds the feed until pressed again
//	{{template "ui-live" .}}                         where the script says what happened, and its texts
package ui
