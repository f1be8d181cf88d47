package books

import (
	"context"
	"fmt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/table"
)

// AheadError: the log has not come to the position yet.
type AheadError struct{ Last eventstore.Position }

func (e *AheadError) Error() string {
	return fmt.Sprintf("the log ends at position %d", e.Last)
}

// Balance is what an account of a project holds.
type Balance struct {
	Project  string
	Currency domain.Currency
	Account  domain.Account
	Balance  domain.Sum
}

// Balances are those of accounts at one moment of the log: just after the event
// at Position, whose time is Time. Both are 0 before the first event.
type Balances struct {
	Position eventstore.Position
	Time     domain.Instant
	Balances []Balance // by project, currency and account; accounts without postings are left out
}

// Balances returns the balances of a project, or those of all projects when
// project is "", just after the event at a position was recorded; 0 is before all
// events. A position the log has not reached is an *AheadError.
func (b *Books) Balances(ctx context.Context, project string, as eventstore.Position) (Balances, error) {
	if _, err := b.log.Fresh(ctx, eventstore.Filter{}); err != nil {
		return Balances{}, err
	}
	accounts, at := b.accountsOf(project, func(*account) bool { return true })
	if as > at && as != Now {
		return Balances{}, &AheadError{Last: at}
	}
	at = min(at, as)
	out := Balances{Position: at}
	var err error
	if out.Time, err = b.log.TimeOf(ctx, at); err != nil {
		return Balances{}, err
	}
	for _, a := range accounts {
		one := Balance{a.Project, a.Currency, a.Account, a.Balance}
		if a.Position > at {
			found, err := b.journal.First(ctx, table.Range{Lo: a.line(0), Hi: a.line(at + 1)}, true, 1)
			if err != nil {
				return Balances{}, err
			}
			if len(found) == 0 {
				continue
			}
			one.Balance = found[0].Value.Balance
		}
		out.Balances = append(out.Balances, one)
	}
	return out, nil
}
