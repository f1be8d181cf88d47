package domain

import "strings"

// Account is one account of a project's books, or of the operator's own: one of the constants, or the
// AcquirerReceivable or SettlementTransit of a route. Each currency has its own balance.
type Account string

// The accounts. Debits are positive and credits negative, so a debt to the
// merchant, to a customer or to an unknown payer is a negative balance.
const (
	MerchantPayable Account = "merchant_payable"  // owed to the merchant: paid, not refunded
	RefundsInFlight Account = "refunds_in_flight" // taken from the merchant or from suspense, not yet received by the customer
	Suspense        Account = "suspense"          // late funds, and refunds by another hand: to be cleared by the operator
	DisputesHeld    Account = "disputes_held"     // taken from the merchant until a dispute is decided
	Operator        Account = "operator"          // what the operator has kept (credit) or borne (debit) of that

	ProviderFees       Account = "provider_fees"       // what providers have kept
	SettlementSuspense Account = "settlement_suspense" // lines of reports that fit nothing: to be resolved by the operator
	Bank               Account = "bank"                // paid out by providers, not yet to merchants
	Losses             Account = "losses"              // what the operator has written off
)

const (
	receivable = "acquirer_receivable:"
	transit    = "settlement_transit:"
)

// AcquirerReceivable is the account of what the acquirer behind a route owes.
func AcquirerReceivable(route string) Account { return Account(receivable + route) }

// SettlementTransit is the account of what the acquirer behind a route says that it has paid out.
func SettlementTransit(route string) Account { return Account(transit + route) }

// Route is the route of an AcquirerReceivable, "" for any other account.
func (a Account) Route() string {
	route, ok := strings.CutPrefix(string(a), receivable)
	if !ok {
		return ""
	}
	return route
}

// InTransit reports whether the account is the SettlementTransit of a route.
func (a Account) InTransit() bool { return strings.HasPrefix(string(a), transit) }

// Asset reports whether the account holds what is owed to the operator, what it has, or what it has
// spent; of others a credit is the usual balance.
func (a Account) Asset() bool {
	return a.Route() != "" || a.InTransit() || a == ProviderFees || a == Bank || a == Losses
}

// Known reports whether a is an account that postings can name.
func (a Account) Known() bool {
	switch a {
	case MerchantPayable, RefundsInFlight, Suspense, Operator, DisputesHeld, ProviderFees, SettlementSuspense, Bank, Losses:
		return true
	}
	route, ok := strings.CutPrefix(string(a), transit)
	return ok && ValidRoute(route) || ValidRoute(a.Route())
}

// Posting is one line of an event's double entry.
type Posting struct {
	Project  string // whose books; "": those of the event's stream
	Account  Account
	Currency Currency
	Amount   Sum // a debit is positive, a credit negative
}

// Postings returns the double entry of an event, the debit first: no lines, or lines that name each
// account once and add up to zero. It depends only on the event: the commands have checked the
// signal's amount against that of the payment or refund.
//
//	payment.paid        acquirer receivable   to  merchant payable
//	payment.late_funds  acquirer receivable   to  suspense
//	refund.created      merchant payable      to  refunds in flight
//	refund.succeeded    refunds in flight     to  acquirer receivable
//	refund.failed       refunds in flight     to  merchant payable
//	refund.returned     acquirer receivable   to  merchant payable
//	return.created      suspense              to  refunds in flight
//	return.succeeded    refunds in flight     to  acquirer receivable
//	return.failed       refunds in flight     to  suspense
//
//	payment.disputed      merchant payable   to  disputes held
//	payment.dispute_won   disputes held      to  merchant payable; none if nothing was held
//	payment.dispute_lost  disputes held      to  acquirer receivable; from merchant payable if nothing was held
//
//	payment.refunded_at_provider   suspense   to  acquirer receivable
//	payment.suspense_settled       suspense   to  merchant payable or operator, or back
//
// Every event of a payment has a postings method, or it does not compile. Of other events only
// those with a method Postings move money: see package settlement.
func Postings(e Event) []Posting {
	switch e := e.(type) {
	case PaymentEvent:
		return e.postings()
	case interface{ Postings() []Posting }:
		return e.Postings()
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
