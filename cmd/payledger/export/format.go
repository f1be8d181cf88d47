package export

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/httpapi/edge"
)

// format is a way to write events down, one line after the other. What an
// event adds is a block of whole lines; the first one names its position, so
// that the end of a file can be found.
type format interface {
	// header is what the file begins with.
	header() string
	// render appends an event's block, which may be empty.
	render(dst []byte, r eventstore.Stored) ([]byte, error)
}

// newFormat makes the format of that name. Of money it writes only a project's; "": all.
func newFormat(name, project string) format {
	of := postings{eventstore.NewCodec(), project}
	switch name {
	case "csv":
		return &csvFormat{of}
	case "hledger":
		return &hledgerFormat{postings: of, declared: make(map[string]bool)}
	}
	return jsonlFormat{}
}

// postings reads the double entry of events, each line with its project. Those of each project add
// up to zero.
type postings struct {
	codec *eventstore.Codec
	of    string // the only project; "": all
}

func (p postings) read(r eventstore.Stored) (event domain.Event, all []domain.Posting, err error) {
	event, err = p.codec.Decode(r)
	all = domain.Postings(event)
	for i := range all {
		all[i].Project = cmp.Or(all[i].Project, r.Stream.Project)
	}
	return event, slices.DeleteFunc(all, func(l domain.Posting) bool { return p.of != "" && l.Project != p.of }), err
}

// jsonlFormat writes the stored bytes.
type jsonlFormat struct{}

const jsonlStart, jsonlMiddle, jsonlEnd = `{"position":`, `,"event":`, "}"

func (jsonlFormat) header() string { return "" }

func (jsonlFormat) render(dst []byte, r eventstore.Stored) ([]byte, error) {
	if leaf, opaque := r.OpaqueLeaf(); opaque {
		dst = strconv.AppendUint(append(dst, jsonlStart...), uint64(r.Position), 10)
		dst = base64.StdEncoding.AppendEncode(append(dst, `,"leaf":"`...), leaf[:])
		return append(dst, `"}`+"\n"...), nil
	}
	return AppendRecord(dst, r), nil
}

// AppendRecord is AppendLine with the details that the record has.
func AppendRecord(dst []byte, r eventstore.Stored) []byte {
	dst = AppendLine(dst, r.Position, r.Body)
	if len(r.Details) <= eventstore.SaltSize {
		return dst
	}
	dst = append(append(dst[:len(dst)-len(jsonlEnd+"\n")], `,"details":`...), r.Details[eventstore.SaltSize:]...)
	dst = hex.AppendEncode(append(dst, `,"salt":"`...), r.Details[:eventstore.SaltSize])
	return append(dst, `"`+jsonlEnd+"\n"...)
}

// AppendLine appends an event as a line of an export in JSON Lines.
func AppendLine(dst []byte, at eventstore.Position, body []byte) []byte {
	dst = strconv.AppendUint(append(dst, jsonlStart...), uint64(at), 10)
	return append(append(append(dst, jsonlMiddle...), body...), jsonlEnd+"\n"...)
}

// IsJSONLines reports whether a file begins like an export in JSON Lines.
func IsJSONLines(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false // the caller opens it in another way and reports the error
	}
	defer f.Close() //nolint:errcheck // only read
	head := make([]byte, len(jsonlStart))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == jsonlStart
}

// csvFormat writes a row for each posting, as RFC 4180 says.
type csvFormat struct{ postings }

func (f *csvFormat) header() string {
	row, _ := edge.AppendCSV(
		nil, "position", "time", "project_id", "event_id", "event_type", "payment_id", "refund_id", "account", "currency",
		"debit", "credit", "reference", "reason",
	) // a buffer takes everything
	return string(row)
}

func (f *csvFormat) render(dst []byte, r eventstore.Stored) ([]byte, error) {
	event, lines, err := f.read(r)
	if err != nil {
		return dst, err
	}
	of := detailsOf(r, event)
	for _, p := range lines {
		debit, credit := p.Amount.String(), ""
		if p.Amount.Sign() < 0 {
			debit, credit = "", p.Amount.Neg().String()
		}
		dst, err = edge.AppendCSV(dst,
			strconv.FormatUint(uint64(r.Position), 10), domain.InstantOf(r.At).String(), p.Project, r.Commit.String(),
			event.Type(), of.payment, of.refund, string(p.Account), string(p.Currency), debit, credit, of.reference, of.reason)
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// details are members of an event that accountants need besides its postings.
type details struct{ payment, refund, reference, reason string }

func detailsOf(r eventstore.Stored, e domain.Event) details {
	f := domain.FactsOf(e)
	d := details{payment: r.Stream.ID, reason: f.Reason}
	if r.Stream.Kind == eventstore.KindSettlement {
		d = details{reference: r.Stream.ID} // the report
	}
	if p, ok := e.(settlement.PayoutEvent); ok {
		d = details{reference: p.Payout().Reference}
	}
	if undone, ok := e.(settlement.PayoutUndone); ok {
		d.reason = undone.Reason
	}
	if resolved, ok := e.(settlement.LineResolved); ok {
		d.payment, d.reason = resolved.Payment, resolved.Reason
	}
	if !f.Refund.IsZero() {
		d.refund = f.Refund.String()
	}
	if f.Signal != nil {
		d.reference = f.Signal.Reference
	}
	return d
}

// hledgerFormat writes a journal. A block is
//
//	; position 3
//	commodity 1000.00 RUB
//	account assets:acquirer_receivable:sandbox:prj_…  ; type:A
//	account liabilities:merchant_payable:prj_…  ; type:L
//	2026-11-20 * (EVENT ID) payment.paid
//	    ; time:2026-11-20T10:19:02.400Z, payment:…, project:prj_…, reference:prv-77
//	    assets:acquirer_receivable:sandbox:prj_…  1500.00 RUB
//	    liabilities:merchant_payable:prj_…  -1500.00 RUB
//
// with directives for what no earlier block has declared. Texts from outside
// are percent-encoded, so that they cannot be taken for syntax. Dates are in UTC.
type hledgerFormat struct {
	postings

	declared map[string]bool // directives that are in the file
}

const (
	hledgerHeader   = "; Journal of a payledger log. Debits are positive, credits negative; dates are in UTC.\ndecimal-mark .\n\n"
	hledgerPosition = "; position "
)

func (f *hledgerFormat) header() string { return hledgerHeader }

func (f *hledgerFormat) render(dst []byte, r eventstore.Stored) ([]byte, error) {
	event, lines, err := f.read(r)
	if err != nil || len(lines) == 0 {
		return dst, err
	}
	dst = fmt.Appendf(dst, "%s%d\n", hledgerPosition, r.Position)
	for _, p := range lines {
		account, kind := hledgerAccount(p.Account, p.Project)
		for _, d := range []string{"commodity 1000.00 " + hledgerCommodity(p.Currency), "account " + account + "  ; type:" + kind} {
			if !f.declared[d] {
				f.declared[d] = true
				dst = append(append(dst, d...), '\n')
			}
		}
	}
	at := domain.InstantOf(r.At)
	of := detailsOf(r, event)
	dst = fmt.Appendf(dst, "%s * (%s) %s\n    ; time:%s", at.Time().Format("2006-01-02"), r.Commit, event.Type(), at)
	for _, tag := range []struct{ name, value string }{{"payment", of.payment}, {"project", r.Stream.Project}, {"refund", of.refund}, {"reference", of.reference}, {"reason", of.reason}} {
		if tag.value != "" {
			dst = fmt.Appendf(dst, ", %s:%s", tag.name, url.PathEscape(tag.value))
		}
	}
	dst = append(dst, '\n')
	for _, p := range lines {
		account, _ := hledgerAccount(p.Account, p.Project)
		dst = fmt.Appendf(dst, "    %s  %s %s\n", account, p.Amount, hledgerCommodity(p.Currency))
	}
	return append(dst, '\n'), nil
}

func hledgerAccount(a domain.Account, project string) (name, kind string) {
	project = strings.ReplaceAll(url.PathEscape(project), ":", "%3A")
	head, route, of := strings.Cut(string(a), ":")
	if of {
		head += ":" + strings.ReplaceAll(url.PathEscape(route), ":", "%3A")
	}
	switch {
	case a == domain.ProviderFees || a == domain.Losses:
		return "expenses:" + head + ":" + project, "X"
	case a.Asset():
		return "assets:" + head + ":" + project, "A"
	}
	return "liabilities:" + head + ":" + project, "L"
}

// hledgerCommodity is the currency, in quotes unless it has only letters.
func hledgerCommodity(c domain.Currency) string {
	if strings.Trim(string(c), "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" && c != "" {
		return string(c)
	}
	return `"` + url.PathEscape(string(c)) + `"`
}
