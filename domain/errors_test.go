package domain_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"testing"

	"payledger/domain"
)

// TestCodesAreUniqueAndSpelledAlike reads the source, so that a new code
// cannot be left out.
func TestCodesAreUniqueAndSpelledAlike(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	seen := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil || !form.MatchString(code) {
			t.Errorf("%s is %q", spec.Names[0], code)
		}
		if seen[code] {
			t.Errorf("%s is the code of two conditions", code)
		}
		seen[code] = true
		return false
	})
	for _, code := range []domain.Code{domain.AmountFormat, domain.PaymentNotPaid, domain.RefundExists, domain.ValidationFailed} {
		if !seen[string(code)] {
			t.Errorf("%s was not found: the test reads the wrong file", code)
		}
	}
}

func TestErrorsNameTheField(t *testing.T) {
	t.Parallel()
	bare := &domain.FieldError{Code: domain.AmountFormat}
	named := bare.InField("amount")
	if bare.Field != "" || bare.Error() != "amount_format" || named.Error() != "amount: amount_format" {
		t.Errorf("bare %q, named %q", bare, named)
	}
	all := domain.FieldErrors{named, {Field: "payload", Code: domain.PayloadTooLarge}}
	if got := all.Error(); got != "amount: amount_format; payload: payload_too_large" {
		t.Errorf("all of them: %q", got)
	}
	for want, err := range map[string]error{
		"payment_not_paid":                               &domain.Refusal{Code: domain.PaymentNotPaid},
		"too early: the payment has no route yet":        &domain.TooEarlyError{},
		"too early: the payment has no final status yet": &domain.TooEarlyError{Undecided: true},
		"too early: not before 2026-11-20T10:15:30.123Z": &domain.TooEarlyError{Until: createdAt},
	} {
		if err.Error() != want {
			t.Errorf("%T says %q, want %q", err, err, want)
		}
	}
}
