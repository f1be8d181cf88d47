package domain_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"payledger/domain"
)

// amountTokens has a token for every case of the grammar, with the amount in minor
// units or the error's code. It also seeds the fuzz target.
func amountTokens() []amountToken {
	nines := strings.Repeat("9", 400)
	return []amountToken{
		{"0.01", 1, ""},
		{"0.1", 10, ""},
		{"0.10", 10, ""},
		{"0.99", 99, ""},
		{"1", 100, ""},
		{"1.0", 100, ""},
		{"1.00", 100, ""},
		{"9", 900, ""},
		{"10", 1000, ""},
		{"10.5", 1050, ""},
		{"1500", 150000, ""},
		{"1500.00", 150000, ""},
		{"100000000", 10_000_000_000, ""},
		{"999999999", 99_999_999_900, ""},
		{"999999999.98", 99_999_999_998, ""},
		{"999999999.99", 99_999_999_999, ""},

		{"0", 0, domain.AmountTooSmall},
		{"0.0", 0, domain.AmountTooSmall},
		{"0.00", 0, domain.AmountTooSmall},

		{"0.000", 0, domain.AmountPrecision},
		{"0.001", 0, domain.AmountPrecision},
		{"0.009", 0, domain.AmountPrecision},
		{"1.000", 0, domain.AmountPrecision},
		{"1.005", 0, domain.AmountPrecision},
		{"999999999.990", 0, domain.AmountPrecision},
		{"999999999.991", 0, domain.AmountPrecision},
		{"1234567890.123", 0, domain.AmountPrecision},
		{nines + ".000", 0, domain.AmountPrecision},
		{"0." + nines, 0, domain.AmountPrecision},

		{"1000000000", 0, domain.AmountTooLarge},
		{"1000000000.00", 0, domain.AmountTooLarge},
		{"1000000000.9", 0, domain.AmountTooLarge},
		{"18446744073709551617", 0, domain.AmountTooLarge},
		{nines, 0, domain.AmountTooLarge},
		{nines + ".99", 0, domain.AmountTooLarge},

		{"", 0, domain.AmountFormat},
		{" ", 0, domain.AmountFormat},
		{" 1", 0, domain.AmountFormat},
		{"1 ", 0, domain.AmountFormat},
		{"1\n", 0, domain.AmountFormat},
		{"1\x00", 0, domain.AmountFormat},
		{"1 000", 0, domain.AmountFormat},
		{"1,000", 0, domain.AmountFormat},
		{"1,5", 0, domain.AmountFormat},
		{"1_000", 0, domain.AmountFormat},
		{"00", 0, domain.AmountFormat},
		{"01", 0, domain.AmountFormat},
		{"00.01", 0, domain.AmountFormat},
		{"0000000000001", 0, domain.AmountFormat},
		{"01.000", 0, domain.AmountFormat},
		{"+1", 0, domain.AmountFormat},
		{"-1", 0, domain.AmountFormat},
		{"-0", 0, domain.AmountFormat},
		{"-0.00", 0, domain.AmountFormat},
		{"-1.005", 0, domain.AmountFormat},
		{".5", 0, domain.AmountFormat},
		{"1.", 0, domain.AmountFormat},
		{".", 0, domain.AmountFormat},
		{"1..5", 0, domain.AmountFormat},
		{"1.5.0", 0, domain.AmountFormat},
		{"1e2", 0, domain.AmountFormat},
		{"1E2", 0, domain.AmountFormat},
		{"1.5e1", 0, domain.AmountFormat},
		{"1.555e1", 0, domain.AmountFormat},
		{"10000000000e1", 0, domain.AmountFormat},
		{"0x10", 0, domain.AmountFormat},
		{"NaN", 0, domain.AmountFormat},
		{"Infinity", 0, domain.AmountFormat},
		{"null", 0, domain.AmountFormat},
		{"١", 0, domain.AmountFormat},        // ARABIC-INDIC DIGIT ONE
		{"1.5０", 0, domain.AmountFormat},     // FULLWIDTH DIGIT ZERO
		{"1\u066b5", 0, domain.AmountFormat}, // ARABIC DECIMAL SEPARATOR
		{"−1", 0, domain.AmountFormat},       // MINUS SIGN
		{"1\u00a0000", 0, domain.AmountFormat},
		{"\ufeff1", 0, domain.AmountFormat},
		{"1\xff", 0, domain.AmountFormat},
		{"₽1", 0, domain.AmountFormat},
	}
}

type amountToken struct {
	token  string
	amount domain.Amount
	code   domain.Code
}

func TestParseAmount(t *testing.T) {
	t.Parallel()
	for _, tt := range amountTokens() {
		got, err := domain.ParseAmount(tt.token)
		if got != tt.amount || codeOf(t, err) != tt.code {
			t.Errorf("ParseAmount(%.40q) = %d, %v, want %d, %q", tt.token, got, err, tt.amount, tt.code)
		}
	}
}

func TestParseAmountNamesTheBounds(t *testing.T) {
	t.Parallel()
	var tooSmall, tooLarge *domain.FieldError
	_, err := domain.ParseAmount("0.00")
	if !errors.As(err, &tooSmall) || tooSmall.Min.String() != "0.01" || tooSmall.Field != "" {
		t.Errorf("zero is refused with %+v, want the least amount and no field name", err)
	}
	_, err = domain.ParseAmount("1000000000")
	if !errors.As(err, &tooLarge) || tooLarge.Max.String() != "999999999.99" {
		t.Errorf("ten digits are refused with %+v, want the greatest amount", err)
	}
}

// The grammar as the API documents it, and the order of its codes.
var (
	grammar     = regexp.MustCompile(`^(0|[1-9][0-9]{0,8})(\.[0-9]{1,2})?$`)
	tooPrecise  = regexp.MustCompile(`^(0|[1-9][0-9]*)\.[0-9]{3,}$`)
	tooManyInts = regexp.MustCompile(`^[1-9][0-9]{9,}(\.[0-9]{1,2})?$`)
)

// modelAmount is a second implementation of ParseAmount, with regular expressions
// and rationals.
func modelAmount(token string) (domain.Amount, domain.Code) {
	switch {
	case tooPrecise.MatchString(token):
		return 0, domain.AmountPrecision
	case tooManyInts.MatchString(token):
		return 0, domain.AmountTooLarge
	case !grammar.MatchString(token):
		return 0, domain.AmountFormat
	}
	r, ok := new(big.Rat).SetString(token)
	if !ok {
		panic("the grammar lets through " + token)
	}
	r.Mul(r, big.NewRat(100, 1))
	if r.Sign() == 0 {
		return 0, domain.AmountTooSmall
	}
	return domain.Amount(r.Num().Int64()), ""
}

func checkAgainstModel(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, token string,
) {
	t.Helper()
	got, err := domain.ParseAmount(token)
	want, code := modelAmount(token)
	if got != want || codeOf(t, err) != code {
		t.Fatalf("ParseAmount(%q) = %d, %v; the grammar says %d, %q", token, got, err, want, code)
	}
	if err != nil {
		return
	}
	again, err := domain.ParseAmount(got.String())
	if err != nil || again != got {
		t.Fatalf("%q reads as %d, is written %q and reads back as %d, %v", token, got, got.String(), again, err)
	}
}

func TestParseAmountAgreesWithTheGrammar(t *testing.T) {
	t.Parallel()
	tokens := rapid.OneOf(
		rapid.StringMatching(`(0|[1-9][0-9]{0,8})(\.[0-9]{1,2})?`),
		rapid.StringMatching(`[0-9]{0,11}(\.[0-9]{0,4})?`),
		rapid.StringMatching(`[-+ ]?[0-9]{1,10}[.,]?[0-9]{0,3}([eE][-+]?[0-9]{1,3})?[ \n]?`),
		rapid.StringOf(rapid.SampledFrom([]rune("0019.٣０-+e,_ "))),
		rapid.String(),
	)
	rapid.Check(t, func(t *rapid.T) { checkAgainstModel(t, tokens.Draw(t, "token")) })
}

func FuzzParseAmount(f *testing.F) {
	for _, tt := range amountTokens() {
		f.Add(tt.token)
	}
	f.Fuzz(func(t *testing.T, token string) { checkAgainstModel(t, token) })
}

func TestAmountIsWrittenWithTwoDigits(t *testing.T) {
	t.Parallel()
	for a, want := range map[domain.Amount]string{
		0: "0.00", 1: "0.01", 10: "0.10", 99: "0.99", 100: "1.00", 101: "1.01", 150000: "1500.00",
		domain.MaxAmount: "999999999.99", -1: "-0.01", -150000: "-1500.00",
	} {
		if got := a.String(); got != want {
			t.Errorf("Amount(%d) is written %q, want %q", int64(a), got, want)
		}
	}
}

func TestEveryAmountSurvivesWritingAndReading(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^(0|[1-9][0-9]*)\.[0-9]{2}$`)
	amounts := rapid.Int64Range(int64(domain.MinAmount), int64(domain.MaxAmount))
	rapid.Check(t, func(t *rapid.T) {
		a := domain.Amount(amounts.Draw(t, "minor"))
		b, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		var back domain.Amount
		if err := json.Unmarshal(b, &back); err != nil || back != a {
			t.Fatalf("%d is written %s and reads back as %d, %v", int64(a), b, int64(back), err)
		}
		if !form.MatchString(a.String()) {
			t.Fatalf("%d is written %q", int64(a), a)
		}
	})
}

func TestAmountUnmarshalTextKeepsTheOldValueOnError(t *testing.T) {
	t.Parallel()
	a := domain.Amount(7)
	err := a.UnmarshalText([]byte("1e2"))
	if codeOf(t, err) != domain.AmountFormat || a != 7 {
		t.Errorf("reading 1e2: %v, amount now %d", err, int64(a))
	}
}

// codeOf is the code of a *FieldError, "" for no error.
func codeOf(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, err error,
) domain.Code {
	t.Helper()
	if err == nil {
		return ""
	}
	var f *domain.FieldError
	if !errors.As(err, &f) {
		t.Fatalf("error %T %v, want a *FieldError", err, err)
	}
	return f.Code
}

// MarshalText writes the same text as String, and UnmarshalText reads the same
// texts as ParseAmount, with the same values.
func TestStoredAmounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := domain.Amount(rapid.Int64().Draw(t, "amount"))
		if b, err := a.MarshalText(); err != nil || string(b) != a.String() {
			t.Fatalf("%d is written %s (%v), want %s", int64(a), b, err, a)
		}
		text := rapid.OneOf(
			rapid.StringMatching(`[0-9]{1,10}\.[0-9]{2}`), rapid.StringMatching(`0{0,2}\.?[0-9]{0,3}`),
			rapid.StringMatching(`[-+0-9.eE ]{0,6}`),
		).Draw(t, "text")
		want, wantErr := domain.ParseAmount(text)
		var got domain.Amount
		if err := got.UnmarshalText([]byte(text)); (err == nil) != (wantErr == nil) || got != want {
			t.Fatalf("%q is read as %d (%v), want %d (%v)", text, got, err, want, wantErr)
		}
	})
}
