package projections

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

// accountRow is an account of a project in one currency, with its newest
// balance and the position of the posting that led to it.
type accountRow struct {
	Project  string              `json:"project"`
	Currency domain.Currency     `json:"currency"`
	Account  domain.Account      `json:"account"`
	Balance  domain.Sum          `json:"balance"`
	Position eventstore.Position `json:"position"`
	Number   uint32              `json:"number"` // from 1, in the order of first postings
}

// books names an account within its project.
type books struct {
	currency domain.Currency
	account  domain.Account
}

func (r *accountRow) books() books { return books{r.Currency, r.Account} }

// line is the key in the journal of the account's posting at a position.
func (r *accountRow) line(p eventstore.Position) string {
	var b [4 + 8]byte
	binary.BigEndian.PutUint32(b[:], r.Number)
	binary.BigEndian.PutUint64(b[4:], uint64(p))
	return string(b[:])
}

// key orders accounts: project, 0, currency, 0, account, 0.
func (r *accountRow) key() string {
	return listKey(r.Project, keyPart(string(r.Currency)), keyPart(string(r.Account)))
}

// keyPart fits any text into a key. A late signal's currency is a provider's
// word, so it may be anything; texts that no program of ours writes are
// replaced by a digest.
func keyPart(s string) string {
	if len(s) <= 64 && !strings.ContainsAny(s, "\x00#") {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "#" + hex.EncodeToString(sum[:])
}

// balancesView holds every account's newest balance, in memory as well as in
// the file: each posting goes on from it.
type balancesView struct {
	table[*accountRow]
	// live is by project and books; guarded by Engine.mu, written by
	// the fold alone. Rows are never changed, only replaced.
	live  map[string]map[books]*accountRow
	count uint32 // of accounts, guarded likewise
}

func newBalancesView() *balancesView {
	return &balancesView{
		table: newTable("balances", appendJSON[accountRow], parseJSON[accountRow]),
		live:  make(map[string]map[books]*accountRow),
	}
}

func (*balancesView) version() int { return 2 }

func (v *balancesView) of(r *accountRow) *accountRow { return v.live[r.Project][r.books()] }

func (v *balancesView) fold(c *change) {
	for _, p := range c.postings {
		if v.of(p.account) == nil {
			v.insert(p.account.key(), p.account)
		} else {
			v.put(p.account.key(), p.account)
		}
		v.keep(p.account)
	}
}

func (v *balancesView) keep(r *accountRow) {
	v.count = max(v.count, r.Number)
	if v.live[r.Project] == nil {
		v.live[r.Project] = make(map[books]*accountRow)
	}
	v.live[r.Project][r.books()] = r
}

// load reads the accounts of an opened file.
func (v *balancesView) load(tx *bolt.Tx) error {
	return tx.Bucket([]byte(v.name)).ForEach(func(key, raw []byte) error {
		r, err := v.open(key, raw)
		if err == nil {
			v.keep(r)
		}
		return err
	})
}

// accounts lists the accounts that match, in order of project, currency and
// account, with the position they stand for. Project "" is all.
func (e *Engine) accounts(project string, match func(*accountRow) bool) ([]*accountRow, eventstore.Position) {
	e.mu.RLock()
	var all []*accountRow
	take := func(rows map[books]*accountRow) {
		for _, r := range rows {
			if match(r) {
				all = append(all, r)
			}
		}
	}
	if project != "" {
		take(e.balances.live[project])
	} else {
		for _, rows := range e.balances.live {
			take(rows)
		}
	}
	at := e.last.position
	e.mu.RUnlock()
	slices.SortFunc(all, func(a, b *accountRow) int {
		return cmp.Or(strings.Compare(a.Project, b.Project), cmp.Compare(a.Currency, b.Currency), cmp.Compare(a.Account, b.Account))
	})
	return all, at
}

// AsOf names a moment of the log. The zero AsOf is now.
type AsOf struct {
	by       int
	position eventstore.Position
	time     domain.Instant
}

const (
	asOfPosition = 1 + iota
	asOfTime
)

// AsOfPosition is the moment just after the event at the position was
// recorded; 0 is before all events.
func AsOfPosition(p eventstore.Position) AsOf { return AsOf{by: asOfPosition, position: p} }

// AsOfTime is the moment before the first event that is later than the time.
// It is exact: an event of the same millisecond still belongs to it.
func AsOfTime(t domain.Instant) AsOf { return AsOf{by: asOfTime, time: t} }

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

// Books are balances at one moment of the log: just after the event at
// Position, whose time is Time. Both are 0 before the first event.
type Books struct {
	Position eventstore.Position
	Time     domain.Instant
	Balances []Balance // by project, currency and account; accounts without postings are left out
}

// Balances answers the books of a project, or those of all projects when
// project is "". A position the log has not reached is an *AheadError.
func (e *Engine) Balances(ctx context.Context, project string, as AsOf) (Books, error) {
	if err := e.fresh(ctx); err != nil {
		return Books{}, err
	}
	rows, at := e.accounts(project, func(*accountRow) bool { return true })
	switch as.by {
	case asOfPosition:
		if as.position > at {
			return Books{}, &AheadError{Last: at}
		}
		at = as.position
	case asOfTime:
		p, err := e.positionAt(ctx, as.time)
		if err != nil {
			return Books{}, err
		}
		at = min(at, p)
	}
	out := Books{Position: at}
	var err error
	if out.Time, err = e.timeOf(ctx, at); err != nil {
		return Books{}, err
	}
	for _, r := range rows {
		b := Balance{r.Project, r.Currency, r.Account, r.Balance}
		if r.Position > at {
			found, err := gather(ctx, e, &e.journal.table, keyRange{r.line(0), r.line(at + 1)}, true, 1)
			if err != nil {
				return Books{}, err
			}
			if len(found) == 0 {
				continue
			}
			b.Balance = found[0].value.balance
		}
		out.Balances = append(out.Balances, b)
	}
	return out, nil
}

// timeOf is the time of the event at a position.
func (e *Engine) timeOf(ctx context.Context, p eventstore.Position) (domain.Instant, error) {
	if p == 0 {
		return 0, nil
	}
	for r, err := range e.store.Scan(ctx, p-1, eventstore.Filter{}) {
		return domain.InstantOf(r.At), err
	}
	return 0, &eventstore.CorruptError{Position: p, Reason: "missing"}
}
