package wire

import (
	"payledger/domain"
	"payledger/domain/settlement"
)

// Settlement is a provider's settlement report, as far as it is recorded: for a project, its own
// lines.
type Settlement struct {
	ID        string              `json:"id"`
	Route     string              `json:"route"`
	Report    string              `json:"report"` // the provider's id of it
	Status    string              `json:"status"` // SettlementRecording or SettlementRecorded
	CreatedAt domain.Instant      `json:"created_at"`
	From      string              `json:"from"` // of the lines
	To        string              `json:"to"`
	Lines     int                 `json:"lines"`
	Waiting   int                 `json:"waiting"` // lines in suspense
	Totals    []settlement.Totals `json:"totals"`
}

// The statuses of a report.
const (
	SettlementRecording = "recording"
	SettlementRecorded  = "recorded"
)

// SettlementLine is a line of a report with what it was found to be.
type SettlementLine struct {
	settlement.Entry
	Resolved  bool   `json:"resolved"` // it was taken out of suspense, by the operator or by itself
	ProjectID string `json:"project_id,omitzero"`

	// Says is what will be recorded of the payment's dispute, of a line that is not recorded yet.
	Says domain.Outcome `json:"says,omitzero"`
}

// SettlementPage is a report with some of its lines.
type SettlementPage struct {
	Settlement
	Data       []SettlementLine `json:"data"`
	NextCursor *string          `json:"next_cursor"`
}

// OpenSettlement begins to record a report.
type OpenSettlement struct {
	Route   string             `json:"route"`
	Report  string             `json:"report"`
	SHA256  domain.Digest      `json:"sha256"` // of the file
	Summary settlement.Summary `json:"summary"`
}

// SettlementLines are lines to record, or to judge without recording them, which need a route.
type SettlementLines struct {
	Route string            `json:"route,omitzero"`
	Lines []settlement.Line `json:"lines"`
}

// The bounds of SettlementLines.
const (
	MaxSettlementLines = 4_000
	MaxSettlementBytes = 2 << 20
)

// ResolveLine takes a line out of suspense.
type ResolveLine struct {
	To        settlement.Resolution `json:"to"`
	PaymentID string                `json:"payment_id,omitzero"` // with settlement.ToPayment
	Reason    string                `json:"reason"`
}

// Reconciliation is what is open between outcomes and reports as of a position of the log.
type Reconciliation struct {
	Position    uint64                  `json:"position"`
	Matched     int                     `json:"matched"` // lines of reports that settled a payment
	Differences []settlement.Difference `json:"differences"`
	Remainder   []settlement.Remainder  `json:"remainder"`              // what they add up to
	NotExpected []settlement.Remainder  `json:"not_expected,omitempty"` // of outcomes that no report is to have, see settled_since of a route
}
