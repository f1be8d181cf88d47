package domain

import "strings"

// Account is one account of a project's books, kept apart by currency:
// MerchantPayable, RefundsInFlight, Suspense, or the AcquirerReceivable of a
// route.
type Account string

// The accounts. Debits are positive and credits negative, so what is owed to
// the merchant, to customers or to somebody unknown is a negative balance.
const (
	MerchantPayable Account = "merchant_payable"  // owed to the merchant: paid, not refunded
	RefundsInFlight Account = "refunds_in_flight" // taken from the merchant, not yet with the customer
	Suspense        Account = "suspense"          // late funds: owed to somebody, awaiting the operator
)

const receivable = "acquirer_receivable:"

// AcquirerReceivable is what the acquirer behind a route owes.
func AcquirerReceivable(route string) Account { return Account(receivable + route) }

// Route is the route whose receivable the account is, "" for another account.
func (a Account) Route() string {
	route, ok := strings.CutPrefix(string(a), receivable)
	if !ok {
		return ""
	}
	return route
}

// Known reports whether a is an account that postings can name.
func (a Account) Known() bool {
	return a == MerchantPayable || a == RefundsInFlight || a == Suspense || validRoute(a.Route())
}

// Posting is one line of an event's double entry.
type Posting struct {
	Account  Account
	Currency Currency
	Amount   Sum // a debit is positive, a credit negative
}

// Postings is the double-entry meaning of an event, the debit first: nothing,
// or lines that name each account once and whose sum is zero. It depends on the event alone,
// because the commands that lead to events of money make sure that a signal's
// sum is the payment's or the refund's.
//
//	payment.paid        acquirer receivable   to  merchant payable
//	payment.late_funds  acquirer receivable   to  suspense
//	refund.created      merchant payable      to  refunds in flight
//	refund.succeeded    refunds in flight     to  acquirer receivable
//	refund.failed       refunds in flight     to  merchant payable
//
// Every event of a payment has to say what it means for the books, or it does
// not compile; events of projects move no money.
func Postings(e Event) []Posting {
	if p, ok := e.(PaymentEvent); ok {
		return p.postings()
	}
	return nil
}

// entry moves an amount: debit one account, credit the other.
func entry(debit, credit Account, amount Amount, currency Currency) []Posting {
	return []Posting{
		{Account: debit, Currency: currency, Amount: SumOf(amount)},
		{Account: credit, Currency: currency, Amount: SumOf(amount).Neg()},
	}
}
