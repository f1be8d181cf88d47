package wire

import "payledger/domain"

// Books is the books at one moment of the log.
type Books struct {
	Position uint64          `json:"position"` // of the last event they reflect
	Time     *domain.Instant `json:"time"`     // of that event; null before the first
	Balances []CurrencyBooks `json:"balances"`
}

// CurrencyBooks are the accounts of one currency. Their total is zero: every event books its amount
// twice.
type CurrencyBooks struct {
	Currency domain.Currency  `json:"currency"`
	Accounts []AccountBalance `json:"accounts"`
	Total    domain.Sum       `json:"total"`
}

// Of is the balance of an account, 0 when nothing was booked on it.
func (b CurrencyBooks) Of(account domain.Account) domain.Sum {
	for _, a := range b.Accounts {
		if a.Account == account {
			return a.Balance
		}
	}
	return domain.Sum{}
}

// AccountBalance is the balance of one account of the books.
type AccountBalance struct {
	Account domain.Account `json:"account"`
	Balance domain.Sum     `json:"balance"`
}

// Posting is one posting with the balance after it.
type Posting struct {
	Position  uint64          `json:"position"`
	Time      domain.Instant  `json:"time"`
	EventID   domain.ID       `json:"event_id"`
	EventType string          `json:"event_type"`
	PaymentID *domain.ID      `json:"payment_id"` // null: of an event of a settlement report
	RefundID  *domain.ID      `json:"refund_id"`
	Account   domain.Account  `json:"account"`
	Currency  domain.Currency `json:"currency"`
	Amount    domain.Sum      `json:"amount"`
	Balance   domain.Sum      `json:"balance"`
	Reference string          `json:"reference,omitempty"` // of a payout, or the id of a settlement report
}

// AllBooks are the books of every project and all of them together.
type AllBooks struct {
	Books
	Projects []ProjectBooks `json:"projects"`
}

// ProjectBooks are the balances of one project.
type ProjectBooks struct {
	ProjectID string          `json:"project_id"`
	Balances  []CurrencyBooks `json:"balances"`
}

// ProjectPosting is a posting of a project.
type ProjectPosting struct {
	ProjectID string `json:"project_id"`
	Posting
}

// LateFunds is money in suspense: what came, and why it could not count as
// the payment.
type LateFunds struct {
	ProjectPosting
	Reason    string         `json:"reason"`
	Route     string         `json:"route"`
	Reference string         `json:"reference"`
	StartedAt domain.Instant `json:"started_at"`
}
