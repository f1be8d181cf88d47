package views

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fill sets every member of a value, whatever it is made of, to something
// other than zero.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for _, member := range v.Fields() {
			fill(t, member, n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), n)
		}
	case reflect.String:
		v.SetString(string(rune('a'+*n%26)) + "é\x00")
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n) << 40)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(*n) % 256)
	default:
		t.Fatalf("members of kind %s are not known here", v.Kind())
	}
}

// A row comes back whole: a member that domain.Payment is given must be given
// to its form as well. No beginning of it, and nothing longer, is a row.
func TestRowsComeBackWhole(t *testing.T) {
	t.Parallel()
	full := new(PaymentRow)
	n := 0
	fill(t, reflect.ValueOf(full).Elem(), &n)
	for _, row := range []*PaymentRow{new(PaymentRow), full} {
		b, err := appendRow([]byte("before"), row)
		must(t, err)
		b = b[len("before"):]
		got, err := parseRow(b)
		must(t, err)
		if d := cmp.Diff(row, got); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
		for i := range b {
			if _, err := parseRow(b[:i]); err == nil {
				t.Errorf("%d of %d bytes are a row", i, len(b))
			}
		}
		if _, err := parseRow(append(b, 0)); err == nil {
			t.Error("a row with something behind it is a row")
		}
	}
}
