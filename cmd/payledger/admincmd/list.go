package admincmd

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/adminclient"
	"payledger/httpapi/wire"
)

// pageSize is how many rows of a list are asked for at a time.
const pageSize = 100

// list calls fn for the rows of a list, as they are in the answers, up to limit
// of them; 0: all.
func list(ctx context.Context, m *adminclient.Client, path string, q url.Values, limit int, fn func(jsontext.Value) error) error {
	for left := limit; ; {
		size := pageSize
		if limit > 0 {
			size = min(size, left)
		}
		q.Set("limit", strconv.Itoa(size))
		var page wire.Page[jsontext.Value]
		if err := m.Call(ctx, http.MethodGet, path+"?"+q.Encode(), nil, &page); err != nil {
			return err
		}
		for _, row := range page.Data {
			if err := fn(row); err != nil {
				return err
			}
		}
		left -= len(page.Data)
		if page.NextCursor == nil || (limit > 0 && left <= 0) {
			return nil
		}
		q.Set("cursor", *page.NextCursor)
	}
}

// checkLimit refuses a --limit that list cannot keep.
func checkLimit(n int) error {
	if n < 0 {
		return fmt.Errorf("--limit %d: want 0 or more", n)
	}
	return nil
}

// eachLine calls fn for each line of an answer that the server streams.
func eachLine(ctx context.Context, m *adminclient.Client, path string, fn func(line []byte) error) error {
	resp, err := m.Send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := fn(lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("the server ended the list: look for the reason with \"payledger verify\": %w", err)
	}
	return nil
}

// decode reads what the server answered.
func decode(raw jsontext.Value, to any) error {
	if err := json.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	return nil
}

// setUnlessEmpty sets a parameter that has a value.
func setUnlessEmpty(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}
