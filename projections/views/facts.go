package views

import (
	"encoding/binary"

	"payledger/domain"
	"payledger/eventstore/values"
)

// facts are the members of a payment that never change and that lists are filtered by. They are
// kept in the lists, so that a payment that does not match is skipped without reading its row.
type facts struct {
	amount   domain.Amount
	currency domain.Currency
	returned domain.Amount // only in the list by refund, where it may change: what went back
}

func factsOf(p *domain.Payment) facts { return facts{amount: p.Amount, currency: p.Currency} }

// The form of facts: two varints and the currency.
func appendFacts(b []byte, f facts) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(f.amount)), uint64(f.returned))
	return append(b, f.currency...)
}

func parseFacts(b []byte) (facts, error) {
	amount, n := binary.Uvarint(b)
	returned, m := binary.Uvarint(b[max(n, 0):])
	if n <= 0 || m <= 0 {
		return facts{}, values.ErrLength
	}
	return facts{amount: domain.Amount(amount), currency: currencyOf(b[n+m:]), returned: domain.Amount(returned)}, nil
}

func currencyOf(b []byte) domain.Currency {
	if string(b) == string(domain.DefaultCurrency) {
		return domain.DefaultCurrency
	}
	return domain.Currency(b)
}
