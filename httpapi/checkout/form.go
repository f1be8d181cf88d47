package checkout

import (
	"crypto/hmac"
	"crypto/rand"

	"payledger/domain"
)

const (
	nonceBytes = 16
	macBytes   = 32
)

// newForm makes the token of one form: a fresh nonce and its HMAC for the
// visited payment. There is no expiry in it; it is worth as much as the
// payment is open.
func (l *Links) newForm(v *visit) string {
	nonce := make([]byte, nonceBytes, nonceBytes+macBytes)
	rand.Read(nonce)
	return canonical.EncodeToString(append(nonce, l.formMAC(v.version, v.id, nonce)...))
}

// openForm checks a form's token and answers the provider's reference of what
// the form asks for. It is the payment's, not the form's: a form whose answer
// was lost counts once with those of every other window.
func (l *Links) openForm(v *visit, token string) (reference string, ok bool) {
	in, err := canonical.DecodeString(token)
	if err != nil || len(in) != nonceBytes+macBytes {
		return "", false
	}
	nonce, mac := in[:nonceBytes], in[nonceBytes:]
	if !hmac.Equal(mac, l.formMAC(v.version, v.id, nonce)) {
		return "", false
	}
	return "page-" + v.id.String(), true
}

// outcomes maps the choices of a form to the provider's outcomes.
func outcomes(choice string) (domain.Outcome, bool) {
	switch choice {
	case "pay":
		return domain.OutcomePaid, true
	case "decline":
		return domain.OutcomeFailed, true
	}
	return "", false
}
