package table

// Range is the keys from Lo up to, and without, Hi; an empty Hi means no end.
type Range struct{ Lo, Hi string }

// Prefix is the range of every key that begins with the prefix.
func Prefix(prefix string) Range {
	hi := []byte(prefix)
	for len(hi) > 0 && hi[len(hi)-1] == 0xff {
		hi = hi[:len(hi)-1]
	}
	if len(hi) > 0 {
		hi[len(hi)-1]++
	}
	return Range{prefix, string(hi)}
}

func (r Range) has(key string) bool { return r.Lo <= key && (r.Hi == "" || key < r.Hi) }

// endAfter and endBefore cut a range that is read in one direction: after a key, or just before it.
// The range only ever shrinks.
func (r Range) endAfter(key string, descending bool) Range {
	if descending {
		return Range{max(r.Lo, key), r.Hi}
	}
	return r.endBefore(key+"\x00", false)
}

func (r Range) endBefore(key string, descending bool) Range {
	switch {
	case descending:
		return Range{max(r.Lo, key+"\x00"), r.Hi}
	case r.Hi == "" || key < r.Hi:
		return Range{r.Lo, key}
	}
	return r
}

// restOf is the part of the whole range that lies beyond r, nil when there is
// none.
func (r Range) restOf(whole Range, descending bool) *Range {
	switch {
	case descending && r.Lo != whole.Lo:
		return &Range{whole.Lo, r.Lo}
	case !descending && r.Hi != whole.Hi:
		return &Range{r.Hi, whole.Hi}
	}
	return nil
}
