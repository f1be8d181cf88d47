package values

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
)

// Structs is the form of structs whose members are all exported: the members in
// their order, without names. So it changes with every change of a struct.
//
//	bool, int, int64          a varint
//	uint64                    an unsigned varint
//	array of bytes            as a slice, without zeros at its end
//	text                      twice its length as a varint, and the text; or, of an
//	                          interned one, twice its number and one
//	slice                     its length as a varint, and the elements
//	pointer                   a byte 0 for nil, or a byte 1 and what it points to
//
// An empty slice is read as nil. The zero value interns no strings, and is safe for concurrent use.
type Structs struct {
	numbers map[string]uint64 // of interned strings
	texts   []string          // by number
}

// Sharing is a form with interned strings: those of a named type, such as a status or a currency,
// and those given to Share. Values can be read only with the Structs that wrote them.
func Sharing() *Structs { return &Structs{numbers: make(map[string]uint64)} }

// Share interns a string and returns its number.
func (f *Structs) Share(text string) uint64 {
	n, ok := f.numbers[text]
	if !ok {
		n = uint64(len(f.texts))
		f.numbers[text], f.texts = n, append(f.texts, text)
	}
	return n
}

// Append appends what v points to.
func (f *Structs) Append(b []byte, v any) []byte { return f.append(b, reflect.ValueOf(v).Elem()) }

func (f *Structs) append(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() { //nolint:modernize // Fields describes each member as well, which takes longer
			b = f.append(b, v.Field(i))
		}
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		b = f.append(append(b, 1), v.Elem())
	case reflect.Slice:
		n := v.Len()
		b = binary.AppendUvarint(b, uint64(n))
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return append(b, v.Bytes()...)
		}
		for i := range n {
			b = f.append(b, v.Index(i))
		}
	case reflect.Array:
		b = AppendText(b, bytes.TrimRight(v.Bytes(), "\x00"))
	case reflect.String:
		s := v.String()
		n, ok := f.numbers[s]
		if !ok && f.numbers != nil && v.Type() != reflect.TypeFor[string]() {
			n, ok = f.Share(s), true
		}
		if ok {
			return binary.AppendUvarint(b, n<<1|1)
		}
		b = append(binary.AppendUvarint(b, uint64(len(s))<<1), s...)
	case reflect.Bool:
		n := int64(0)
		if v.Bool() {
			n = 1
		}
		b = binary.AppendVarint(b, n)
	case reflect.Int, reflect.Int64:
		b = binary.AppendVarint(b, v.Int())
	case reflect.Uint64:
		b = binary.AppendUvarint(b, v.Uint())
	default:
		panic(unknown(v))
	}
	return b
}

func unknown(v reflect.Value) string { return fmt.Sprintf("values of type %s have no form", v.Type()) }

// Parse reads all of b into what v points to, which is zero. The texts that it
// reads are parts of one, so that they keep each other in memory.
func (f *Structs) Parse(b []byte, v any) error {
	r := structReader{Decoder: Decode(b), whole: string(b), texts: f.texts}
	r.read(reflect.ValueOf(v).Elem())
	return r.End()
}

type structReader struct {
	Decoder

	whole string
	texts []string
}

func (r *structReader) read(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() { //nolint:modernize // Fields describes each member as well, which takes longer
			r.read(v.Field(i))
		}
	case reflect.Pointer:
		if r.Byte() == 1 {
			v.Set(reflect.New(v.Type().Elem()))
			r.read(v.Elem())
		}
	case reflect.Slice:
		n := r.Uint()
		switch {
		case n > uint64(len(r.rest)): // an element has at least one byte
			r.Fail()
		case n > 0:
			v.Grow(int(n))
			v.SetLen(int(n))
			if v.Type().Elem().Kind() == reflect.Uint8 {
				copy(v.Bytes(), r.Bytes(n))
				return
			}
			for i := range int(n) {
				r.read(v.Index(i))
			}
		}
	case reflect.Array:
		copy(v.Bytes(), r.Text())
	case reflect.String:
		v.SetString(r.text())
	case reflect.Bool:
		v.SetBool(r.Int() == 1)
	case reflect.Int, reflect.Int64:
		v.SetInt(r.Int())
	case reflect.Uint64:
		v.SetUint(r.Uint())
	default:
		panic(unknown(v))
	}
}

func (r *structReader) text() string {
	n := r.Uint()
	if n&1 == 0 {
		at := len(r.whole) - len(r.rest)
		return r.whole[at : at+len(r.Bytes(n>>1))]
	}
	if n >>= 1; n < uint64(len(r.texts)) {
		return r.texts[n]
	}
	r.Fail()
	return ""
}
