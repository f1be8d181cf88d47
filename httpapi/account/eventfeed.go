package account

import (
	"bytes"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
)

// followEvents answers the feed of events as rows of the page: server-sent
// events "row" whose data is the HTML of one element.
func (v *visit) followEvents() error {
	if err := v.saveSession(); err != nil {
		return err
	}
	ctx, cancel := v.streaming()
	defer cancel()
	q := url.Values{}
	if after := v.query("after"); after != "" {
		q.Set("after", after)
	}
	r, err := v.request(ctx, v.r.Method, "/v1/events", q, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/event-stream")
	if last := v.r.Header.Get("Last-Event-Id"); last != "" {
		r.Header.Set("Last-Event-Id", last)
	}
	d := v.desk("")
	d.Root = "./" // the rows become part of the page above
	if res := v.Stream(&rowWriter{ResponseWriter: v.w, visit: v, desk: d}, v.session, r); res != nil {
		defer res.Body.Close()
		return ReadProblem(res)
	}
	return nil
}

// rowWriter turns the events of the API's feed into rows. Whatever else the
// feed says, such as its heartbeat, it hands on.
type rowWriter struct {
	http.ResponseWriter
	visit *visit
	desk  desk
	rest  []byte // the beginning of what is not yet whole
}

// Unwrap is for http.ResponseController.
func (w *rowWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter.
func (w *rowWriter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		block, rest, whole := bytes.Cut(w.rest, []byte("\n\n"))
		if !whole {
			return len(b), nil
		}
		out, err := w.row(block)
		if err != nil {
			return 0, err
		}
		if _, err := w.ResponseWriter.Write(append(out, "\n\n"...)); err != nil {
			return 0, err
		}
		w.rest = rest
	}
}

// row is a block of the feed as the page reads it.
func (w *rowWriter) row(block []byte) ([]byte, error) {
	var id, data []byte
	for line := range bytes.Lines(block) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if text, ok := bytes.CutPrefix(line, []byte("id: ")); ok {
			id = text
		} else if text, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			data = text
		}
	}
	if data == nil {
		return block, nil
	}
	var l eventLine
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, err
	}
	row, err := w.desk.eventRow(l)
	if err != nil {
		return nil, err
	}
	var html bytes.Buffer
	if err := w.visit.templates.ExecuteTemplate(&html, "event-row", row); err != nil {
		return nil, err
	}
	out := append([]byte("id: "), id...)
	out = append(out, "\nevent: row"...)
	for line := range bytes.Lines(bytes.TrimSpace(html.Bytes())) {
		out = append(out, "\ndata: "...)
		out = append(out, bytes.TrimRight(line, "\r\n")...)
	}
	return out, nil
}
