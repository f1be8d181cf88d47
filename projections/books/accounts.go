package books

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/table"
)

// account is an account of a project in one currency, with its newest balance
// and the position of the posting that led to it.
type account struct {
	Project  string
	Currency domain.Currency
	Account  domain.Account
	Balance  domain.Sum
	Position eventstore.Position
	Number   uint64 // from 1, in the order of first postings
}

// accountName is the part of an account's identity within its project.
type accountName struct {
	currency domain.Currency
	account  domain.Account
}

func (a *account) name() accountName { return accountName{a.Currency, a.Account} }

// line is the key in the journal of the account's posting at a position.
func (a *account) line(p eventstore.Position) string {
	var b [4 + 8]byte
	binary.BigEndian.PutUint32(b[:], uint32(a.Number))
	binary.BigEndian.PutUint64(b[4:], uint64(p))
	return string(b[:])
}

// key orders accounts: project, 0, currency, 0, account, 0.
func (a *account) key() string {
	return a.Project + "\x00" + keyPart(string(a.Currency)) + "\x00" + keyPart(string(a.Account)) + "\x00"
}

// keyPart fits any text into a key. The currency of a late signal is what a
// provider wrote, so it may be anything; a text that no program of ours writes
// is replaced by a digest.
func keyPart(s string) string {
	if len(s) <= 64 && !strings.ContainsAny(s, "\x00#") {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "#" + hex.EncodeToString(sum[:])
}

// accountsView holds every account, in memory as well as in the file: each
// posting continues from its balance.
type accountsView struct {
	*table.Table[*account]
	// live is by project and name; guarded by the DB, written only by the fold. Accounts are never
	// changed, only replaced.
	live  map[string]map[accountName]*account
	count uint64 // of accounts, guarded likewise
	// suspense adds up the accounts of that name by currency; guarded likewise.
	suspense map[domain.Currency]domain.Sum
}

func newAccountsView(db *table.DB) *accountsView {
	return &accountsView{
		Table: table.OfStructs[account](db, "balances"), live: make(map[string]map[accountName]*account),
		suspense: make(map[domain.Currency]domain.Sum),
	}
}

// posted is one posting of an event, and the account after it.
type posted struct {
	account *account
	entry   journalEntry
}

// post changes the accounts by what an event means for them.
func (v *accountsView) post(r eventstore.Stored, event domain.Event) []posted {
	postings := domain.Postings(event)
	if len(postings) == 0 {
		return nil
	}
	out := make([]posted, len(postings))
	for i, p := range postings {
		after := account{Project: cmp.Or(p.Project, r.Stream.Project), Currency: p.Currency, Account: p.Account}
		before := v.live[after.Project][after.name()]
		if before != nil {
			after.Balance, after.Number = before.Balance, before.Number
		} else {
			after.Number = v.count + 1
		}
		after.Balance, after.Position = after.Balance.Add(p.Amount), r.Position
		if before == nil {
			v.Insert(after.key(), &after)
		} else {
			v.Replace(after.key(), &after)
		}
		v.set(&after)
		out[i] = posted{&after, journalEntry{p.Amount, after.Balance}}
	}
	return out
}

func (v *accountsView) set(a *account) {
	v.count = max(v.count, a.Number)
	if v.live[a.Project] == nil {
		v.live[a.Project] = make(map[accountName]*account)
	}
	if a.Account == domain.Suspense {
		sum := v.suspense[a.Currency].Add(a.Balance)
		if before := v.live[a.Project][a.name()]; before != nil {
			sum = sum.Add(before.Balance.Neg())
		}
		v.suspense[a.Currency] = sum
	}
	v.live[a.Project][a.name()] = a
}

func (v *accountsView) load(ctx context.Context) error {
	return v.Each(ctx, table.Range{}, math.MaxInt, func(_ string, a *account) error {
		v.set(a)
		return nil
	})
}

// Suspense is what lies on the suspense accounts of all projects by currency: a
// credit, so negative, where money waits for the operator. It does not wait for
// the newest events.
func (b *Books) Suspense() map[domain.Currency]domain.Sum {
	b.db.RLock()
	defer b.db.RUnlock()
	return maps.Clone(b.accounts.suspense)
}

// accountsOf lists the accounts that match, in order of project, currency and account, with the
// position that they reflect. Project "" means all.
func (b *Books) accountsOf(project string, match func(*account) bool) ([]*account, eventstore.Position) {
	b.db.RLock()
	var all []*account
	take := func(accounts map[accountName]*account) {
		for _, a := range accounts {
			if match(a) {
				all = append(all, a)
			}
		}
	}
	if project != "" {
		take(b.accounts.live[project])
	} else {
		for _, accounts := range b.accounts.live {
			take(accounts)
		}
	}
	at := b.last
	b.db.RUnlock()
	slices.SortFunc(all, func(x, y *account) int {
		return cmp.Or(strings.Compare(x.Project, y.Project), cmp.Compare(x.Currency, y.Currency), cmp.Compare(x.Account, y.Account))
	})
	return all, at
}
