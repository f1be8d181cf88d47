package admincmd

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/cli"
	"payledger/httpapi/wire"
)

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

const backupsHold = "Backups that were made before hold the details until they are thrown away."

// Run erases.
func (c Erase) Run(a *cli.App) error {
	switch {
	case c.PaymentID != "" && (c.Project != "" || c.Before != ""), c.PaymentID == "" && (c.Project == "" || c.Before == ""):
		return cli.Errorf(cli.ExitUsage, "name a payment, or --project and --before")
	case c.PaymentID != "":
		err := show(a, c, "POST /admin/payments/{id}/erase", func(p jsontext.Value) error {
			return a.Print(p, "The details of %s are erased.\n", c.PaymentID)
		})
		if err != nil || a.JSON {
			return err
		}
		return a.Note(backupsHold)
	}
	var all wire.Erasure
	progress := cli.EachInterval(func(done, _ int) { _ = a.Note(fmt.Sprintf("%d payments erased so far.", done)) })
	for more := true; more; {
		err := asking(a, erasePage{c, c.Project}, "POST /admin/projects/{project_id}/erase", func(m *cli.Client, r request) error {
			var page wire.Erasure
			err := r.send(a.Ctx, m, &page)
			all.Erased, all.InLog = all.Erased+page.Erased, all.InLog+page.InLog
			c.Behind, more = page.Next, page.Next != ""
			return err
		})
		if err != nil {
			return err
		}
		progress(all.Erased, 0)
	}
	if err := a.Print(all, "The details of %d payments are erased.\n", all.Erased); err != nil || a.JSON {
		return err
	}
	if all.InLog > 0 {
		if err := a.Note(fmt.Sprintf("%d payments were recorded by an earlier version, which kept details in the log: they cannot be erased.", all.InLog)); err != nil {
			return err
		}
	}
	return a.Note(backupsHold)
}

type erasePage struct {
	Erase
	ProjectID string `kong:"-" json:"project_id"`
}
