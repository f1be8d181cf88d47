package account

import (
	"maps"
	"net/url"
	"strings"
)

// The API's lists only go on, so a page's address holds the cursors of the
// pages before it, the oldest of which are forgotten: from there Newer leads
// to the first page.
const (
	cursorParameter = "cursor"
	trailParameter  = "trail"
	maxTrail        = 12
)

// pager is the links to the pages beside a page of a list, "" for none.
type pager struct {
	Newest, Newer, Older string
}

// pager makes the links of a list at a path. filters are its address without
// cursors.
func (v *visit) pager(path string, filters url.Values, next *string) pager {
	var p pager
	root := v.to(path)
	address := func(cursor string, trail []string) string {
		q := maps.Clone(filters)
		if q == nil {
			q = url.Values{}
		}
		if cursor != "" {
			q.Set(cursorParameter, cursor)
		}
		if len(trail) > 0 {
			q.Set(trailParameter, strings.Join(trail, "."))
		}
		if len(q) == 0 {
			return root
		}
		return root + "?" + q.Encode()
	}
	here := v.query(cursorParameter)
	var trail []string
	if t := v.query(trailParameter); t != "" {
		trail = strings.Split(t, ".")
	}
	if next != nil {
		on := trail
		if here != "" {
			on = append(on, here)
		}
		p.Older = address(*next, on[max(0, len(on)-maxTrail):])
	}
	if here != "" {
		p.Newest = address("", nil)
		p.Newer = p.Newest
		if n := len(trail); n > 0 {
			p.Newer = address(trail[n-1], trail[:n-1])
		}
	}
	return p
}
