package ui

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestReadForm(t *testing.T) {
	t.Parallel()
	const form = "application/x-www-form-urlencoded"
	for name, c := range map[string]struct {
		media, encoding, body string
		status                int
	}{
		"a form":            {form, "", "name=%D0%A7%D0%B0%D0%B9", 0},
		"a form in UTF-8":   {form + "; charset=UTF-8", "", "name=tea", 0},
		"in another set":    {form + "; charset=koi8-r", "", "name=tea", http.StatusUnsupportedMediaType},
		"JSON":              {"application/json", "", "{}", http.StatusUnsupportedMediaType},
		"nothing":           {"", "", "name=tea", http.StatusUnsupportedMediaType},
		"a compressed form": {form, "gzip", "name=tea", http.StatusUnsupportedMediaType},
		"a long form":       {form, "", "name=" + strings.Repeat("x", 100), http.StatusRequestEntityTooLarge},
		"a broken escape":   {form, "", "name=%zz", http.StatusBadRequest},
		"invalid UTF-8":     {form, "", "name=%ff", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body))
			r.Header.Set("Content-Type", c.media)
			r.Header.Set("Content-Encoding", c.encoding)
			got, status, err := ReadForm(httptest.NewRecorder(), r, 100)
			if status != c.status || (err == nil) != (c.status == 0) || err == nil && got.Get("name") == "" {
				t.Errorf("%v, %d, %v; want %d", got, status, err, c.status)
			}
			if err != nil && strings.Contains(err.Error(), "zz") {
				t.Errorf("the error names what was sent: %v", err)
			}
		})
	}
}
