package admincmd

import (
	"io"

	"payledger/cmd/payledger/cli"
)

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
		resp, err := m.Send(a.Ctx, r.method, r.url(), nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		return a.Print(map[string]string{"receipt": string(text)}, "%s", text)
	})
}
