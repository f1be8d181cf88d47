package views

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/domain/projects"
	"payledger/eventstore/values"
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
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n) << 40)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(*n) % 256)
	default:
		t.Fatalf("members of kind %s are not known here", v.Kind())
	}
}

// Rows come back whole. No beginning of one, and nothing longer, is a row.
func TestRowsComeBackWhole(t *testing.T) {
	t.Parallel()
	comesBackWhole[PaymentRow](t)
	comesBackWhole[projects.Project](t)
	comesBackWhole[AttemptCounts](t)
	comesBackWhole[domain.Outstanding](t)
	comesBackWhole[deliveries.Lane](t)
	comesBackWhole[deliveries.Delivery](t)
	comesBackWhole[deliveries.Endpoint](t)
	comesBackWhole[deliveries.State](t)
	comesBackWhole[PeriodRow](t)
	comesBackWhole[Settlement](t)
}

func comesBackWhole[T any](t *testing.T) {
	t.Helper()
	full := new(T)
	n := 0
	fill(t, reflect.ValueOf(full).Elem(), &n)
	for _, row := range []*T{new(T), full} {
		parse := func(b []byte) (*T, error) {
			v := new(T)
			return v, new(values.Structs).Parse(b, v)
		}
		b := new(values.Structs).Append([]byte("before"), row)[len("before"):]
		got, err := parse(b)
		must(t, err)
		if d := cmp.Diff(row, got); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
		for i := range b {
			if _, err := parse(b[:i]); err == nil {
				t.Errorf("%d of %d bytes are a %T", i, len(b), row)
			}
		}
		if _, err := parse(append(b, 0)); err == nil {
			t.Errorf("a %T with something behind it is one", row)
		}
	}
}

// A struct that is changed changes the form of its rows, which needs a new Format.
func TestFormatRisesWithTheFormOfRows(t *testing.T) {
	t.Parallel()
	row := struct {
		Payment     PaymentRow
		Project     projects.Project
		Attempts    AttemptCounts
		Outstanding domain.Outstanding
		Lane        deliveries.Lane
		Delivery    deliveries.Delivery
		Endpoint    deliveries.Endpoint
		State       deliveries.State
		Period      PeriodRow
		Settlement  Settlement
	}{}
	n := 0
	fill(t, reflect.ValueOf(&row).Elem(), &n)
	b := new(values.Structs).Append(nil, &row)
	got := fmt.Sprintf("%d: %x", Format, sha256.Sum256(b))
	if want := "26: e62cb13b9893acbeb6c6b3452381ddfae7d9a4c2dc6785d8c8eb5e2f91d69b97"; got != want {
		t.Errorf("the rows of format %s should be of %s: raise Format, then write here what it leads to", got, want)
	}
}
