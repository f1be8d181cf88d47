package checkout

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"

	"payledger/domain"
	"payledger/httpapi/ui"
)

// newForm makes the token of one form for the visited payment. There is no expiry in it; it is worth
// as much as the payment is open.
func (l *Links) newForm(v *visit) string { return ui.NewToken(l.formMAC(v)) }

// openForm checks a form's token and answers the provider's reference of what
// the form asks for. It is the payment's, not the form's: a form whose answer
// was lost counts once with those of every other window.
func (l *Links) openForm(v *visit, token string) (reference string, ok bool) {
	return "page-" + v.id.String(), ui.ValidToken(token, l.formMAC(v))
}

// formMAC begins to authenticate a form of the visited payment.
func (l *Links) formMAC(v *visit) hash.Hash {
	m := hmac.New(sha256.New, l.keys[v.version].form)
	m.Write(v.id[:])
	return m
}

// outcomes maps the choices of a form to the provider's outcomes.
func outcomes() map[string]domain.Outcome {
	return map[string]domain.Outcome{"pay": domain.OutcomePaid, "decline": domain.OutcomeFailed}
}
