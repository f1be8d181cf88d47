package admincmd

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/cli"
	"payledger/domain"
	"payledger/httpapi/wire"
)

// Payments groups the commands that show payments.
type Payments struct {
	List paymentsList `cmd:"" help:"List a project's payments, newest first."`
	Get  paymentsGet  `cmd:"" help:"Show a payment with its route, link, attempts and refunds."`
	Find paymentsFind `cmd:"" help:"Find the payment that a provider knows under a reference."`
	Open paymentsOpen `cmd:"" help:"List what is open at providers: attempts, refunds, returns of late funds, disputes."`
	Ask  paymentsAsk  `cmd:"" help:"Ask the provider now what has become of a payment."`
}

type paymentsList struct {
	Reads
	InProject
	Status      string `help:"Only payments in this status: created, awaiting_payment, paid, expired, failed." placeholder:"STATUS" json:"status,omitzero"`
	Disputed    bool   `help:"Only payments that were ever disputed." json:"disputed,omitzero"`
	Currency    string `help:"Only payments in this currency." placeholder:"CODE" json:"currency,omitzero"`
	Description string `help:"Only payments with exactly this description." placeholder:"TEXT" json:"description,omitzero"`
	From        string `help:"Only payments created at this time (2026-11-20T10:15:30Z) or later." placeholder:"TIME" json:"created_from,omitzero"`
	To          string `help:"Only payments created before this time." placeholder:"TIME" json:"created_to,omitzero"`
	Paged
}

// Run lists the payments.
func (c paymentsList) Run(a *cli.App) error {
	return table(a, c, "GET /admin/projects/{project}/payments", "No payments.",
		"PAYMENT, CREATED, STATUS, REFUND, DISPUTE, AMOUNT, CURRENCY, DESCRIPTION", func(p wire.PaymentRow) []any {
			return []any{p.ID, p.CreatedAt, p.Status, p.Refund, p.Dispute, p.Amount, p.Currency, orNothing(p.Description)}
		})
}

// orNothing is a text that may be missing.
func orNothing(text *string) string { return *cmp.Or(text, new(string)) }

type paymentsGet struct {
	Reads
	PaymentID string `arg:"" help:"Payment to show." json:"payment_id"`
}

// Help is shown by --help.
func (paymentsGet) Help() string {
	return `What happened to it, event by event: payledger events tail --payment PAYMENT_ID.`
}

// Run shows the payment.
func (c paymentsGet) Run(a *cli.App) error {
	return showPayment(a, c, "GET /admin/payments/{payment_id}")
}

func showPayment(a *cli.App, c command, line string) error {
	return show(a, c, line, func(p wire.OperatorsPayment) error {
		sum := func(amount domain.Amount, currency domain.Currency) string {
			return amount.String() + " " + string(currency)
		}
		rows := [][2]string{
			{"Payment", p.Payment.ID.String()},
			{"Project", p.ProjectID},
			{"Status", string(p.Payment.Status)},
			{"Amount", sum(p.Payment.Amount, p.Payment.Currency)},
			{"Description", orNothing(p.Payment.Description)},
			{"Payload", string(p.Payment.Payload)},
			{"Created", p.Payment.CreatedAt.String()},
			{"Expires", p.ExpiresAt.String()},
			{"Route", orNothing(p.Route)},
			{"Failed for", orNothing(p.FailureReason)},
			{"Link", p.Link},
		}
		add := func(name string, words ...string) {
			words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
			rows = append(rows, [2]string{name, strings.Join(words, "  ")})
		}
		for _, t := range p.Attempts {
			add("Attempt "+strconv.Itoa(t.Number), string(t.Status), t.BegunAt.String(), t.Reference, string(t.HandOff), t.Reason)
		}
		for _, r := range p.Refunds {
			add("Refund", r.ID.String(), string(r.Status), map[bool]string{true: "returned"}[r.Returned], r.CreatedAt.String())
		}
		for _, d := range p.Disputes {
			due := ""
			if d.EvidenceDueBy != 0 {
				due = "evidence due by " + d.EvidenceDueBy.String()
			}
			add("Dispute", d.Reference, string(d.Status), sum(d.Amount, p.Payment.Currency), d.Reason, due)
		}
		for _, l := range p.SettledBy {
			add("Settled by the provider", l.SettledOn, string(l.Kind), l.Reference, l.Gross.String()+" "+string(l.Currency), "fee "+l.Fee.String())
		}
		for _, f := range p.LateFunds {
			add("Late funds", f.Reference, sum(f.Amount, f.Currency), f.Reason)
		}
		for _, r := range p.Returns {
			add("Return", r.ID.String(), string(r.Status), map[bool]string{true: "returned"}[r.Returned], r.CreatedAt.String(), r.Reference, sum(r.Amount, r.Currency))
		}
		for _, r := range p.ProviderRefunds {
			add("Refunded at the provider", r.RefundReference, r.Reference, sum(r.Amount, r.Currency))
		}
		for _, s := range p.Settlements {
			add("Settled", s.Reference, sum(s.Amount, s.Currency), "debit "+string(s.Debit), "credit "+string(s.Credit), s.Reason)
		}
		return a.PrintRows(rows)
	})
}

type paymentsFind struct {
	Reads
	Reference string `help:"The provider's id of the attempt that collects or collected the money." required:"" placeholder:"REFERENCE" json:"reference"`
	Route     string `help:"Only payments of this route." placeholder:"ROUTE" json:"route,omitzero"`
}

// Help is shown by --help.
func (paymentsFind) Help() string {
	return `References are those of attempts, and of all money that was booked, late funds too. They are
compared exactly.`
}

// Run finds the payments.
func (c paymentsFind) Run(a *cli.App) error {
	return table(a, c, "GET /admin/payments", "No payment has this reference.",
		"PAYMENT, PROJECT, ROUTE, STATUS, AMOUNT, CURRENCY", func(p wire.OperatorsPayment) []any {
			return []any{p.Payment.ID, p.ProjectID, orNothing(p.Route), p.Payment.Status, p.Payment.Amount, p.Payment.Currency}
		})
}

type paymentsAsk struct {
	Served
	PaymentID string `arg:"" help:"Payment to ask about." json:"payment_id"`
}

// Help is shown by --help.
func (paymentsAsk) Help() string {
	return `Reads the open attempt, and refunds and disputes of money that was collected, without waiting for the
next regular look, and records what is new. It needs a server that runs on the data
directory.`
}

// Run asks and shows the payment.
func (c paymentsAsk) Run(a *cli.App) error {
	return showPayment(a, c, "POST /admin/payments/{payment_id}/ask")
}

type paymentsOpen struct {
	Reads
	Route string `help:"Only what is open at the provider of this route." placeholder:"ROUTE" json:"route,omitzero"`
	Paged
}

// Help is shown by --help.
func (paymentsOpen) Help() string {
	return `The oldest payment comes first. KIND is attempt (has the customer paid?), cancel (an attempt
whose payment has ended), refund, return (of late funds), or dispute; WHAT is the attempt's
number, the id, or the provider's id of the dispute. TRIES, NEXT TRY and LAST ERROR are those of a running server, and count from its
start. All of it is followed until the provider has said the end: to ask about a payment
now, "payments ask PAYMENT_ID".`
}

// Run lists what is open.
func (c paymentsOpen) Run(a *cli.App) error {
	return table(a, c, "GET /admin/payments/open", "Nothing is open at a provider.",
		"PAYMENT, ROUTE, KIND, WHAT, SINCE, TRIES, NEXT TRY, LAST ERROR", func(w wire.OpenWork) []any {
			return []any{w.PaymentID, w.Route, w.Kind, w.ID, w.Since, w.Tries, w.NextTry, w.LastError}
		})
}

// Proof prints the receipt of a payment.
type Proof struct {
	Reads
	PaymentID string `arg:"" help:"Payment to prove." json:"payment_id"`
}

// Help is shown by --help.
func (Proof) Help() string {
	return `The receipt is the payment's events, each with its proof of inclusion (c2sp.org/tlog-proof) in the
tree of a signed checkpoint, and that checkpoint. "payledger verify RECEIPT --verifier-key
KEY" judges it, without a network and without the log. It proves that the events are in the
log; that none came after them it cannot prove.`
}

// Run prints the receipt.
func (c Proof) Run(a *cli.App) error {
	return asking(a, c, "GET /admin/payments/{payment_id}/proof", func(m *cli.Client, r request) error {
		text, err := m.Text(a.Ctx, r.url(), math.MaxInt64)
		if err != nil {
			return err
		}
		return a.Print(map[string]string{"receipt": string(text)}, "%s", text)
	})
}

// Erase removes the descriptions and payloads of payments for good.
type Erase struct {
	Served
	PaymentID string `arg:"" optional:"" help:"Payment to erase." json:"id,omitzero"`
	Project   string `help:"Erase payments of this project, with --before." placeholder:"PROJECT_ID" json:"-"`
	Before    string `help:"Erase the project's payments that were created before this time (2026-11-20T10:15:30Z)." placeholder:"TIME" json:"before,omitzero"`
	Reason    string `required:"" help:"Why. It stays in the log for ever: write no personal data into it." placeholder:"TEXT" json:"reason"`
	Behind    string `kong:"-" json:"behind,omitzero"`
}

// Help is shown by --help.
func (Erase) Help() string {
	return `Description and payload of a payment are kept apart from the log's events, which only
commit to them. Erased, they are null and {} in every answer, list, file, page and notification,
and no search finds the payment by them. Amounts, statuses, books and all proofs stay as they
are, and "payledger audit" shows who erased what and why. Repeated, it changes nothing; stopped
half-way, it goes on where it was when it is run again.
Backups that were made before hold the details until they are thrown away.`
}

// Run erases.
func (c Erase) Run(a *cli.App) (err error) {
	switch {
	case c.PaymentID != "" && (c.Project != "" || c.Before != ""), c.PaymentID == "" && (c.Project == "" || c.Before == ""):
		return cli.Errorf(cli.ExitUsage, "name a payment, or --project and --before")
	case c.PaymentID != "":
		err = show(a, c, "POST /admin/payments/{id}/erase", func(p jsontext.Value) error {
			return a.Print(p, "The details of %s are erased.\n", c.PaymentID)
		})
	default:
		err = c.allBefore(a)
	}
	if err != nil || a.JSON {
		return err
	}
	return a.Note("Backups that were made before hold the details until they are thrown away.")
}

// allBefore erases the project's payments, page by page.
func (c Erase) allBefore(a *cli.App) error {
	var all wire.Erasure
	progress := cli.EachInterval(func(done, _ int) { _ = a.Note(fmt.Sprintf("%d payments erased so far.", done)) })
	for more := true; more; {
		err := asking(a, erasePage{c, c.Project}, "POST /admin/projects/{project_id}/erase", func(m *cli.Client, r request) error {
			var page wire.Erasure
			err := r.send(a.Ctx, m, &page)
			all.Erased, all.InLog, all.Damaged = all.Erased+page.Erased, all.InLog+page.InLog, all.Damaged+page.Damaged
			c.Behind, more = page.Next, page.Next != ""
			return err
		})
		if err != nil {
			return err
		}
		progress(all.Erased, 0)
	}
	err := a.Print(all, "The details of %d payments are erased.\n", all.Erased)
	if err == nil && all.InLog > 0 && !a.JSON {
		err = a.Note(fmt.Sprintf("%d payments were recorded by an earlier version, which kept details in the log: they cannot be erased.", all.InLog))
	}
	if err == nil && all.Damaged > 0 {
		err = cli.Errorf(cli.ExitFailed, "%d payments were left as they are, because their events are damaged: \"payledger verify\" names them", all.Damaged)
	}
	return err
}

type erasePage struct {
	Erase
	ProjectID string `kong:"-" json:"project_id"`
}
