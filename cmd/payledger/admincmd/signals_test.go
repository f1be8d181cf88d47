package admincmd

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
)

// Of the signals that --all found, one has gone by the time it is acted on.
func TestAllOfTheSignalsThatAreLeft(t *testing.T) {
	t.Parallel()
	var admin http.ServeMux
	admin.HandleFunc("GET /admin/signals/parked", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":1},{"id":2},{"id":3}],"next_cursor":null,"last":3}`)
	})
	admin.HandleFunc("POST /admin/signals/parked/{id}/{act}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == "2" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"code":"parked_signal_not_found","detail":"There is none."}`)
			return
		}
		fmt.Fprint(w, `{"result":"recorded"}`)
	})
	dir := t.TempDir()
	l, err := datadir.Dir(dir).ListenSocket()
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: &admin}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })

	which := parkedSignals{Served: Served{Directory{dir}}, All: true, Reason: "malformed"}
	for want, c := range map[string]interface{ Run(a *cli.App) error }{
		"{\"discarded\":2}\n": parkedDiscardCmd{which},
		"{\"id\":1,\"result\":\"recorded\"}\n{\"id\":3,\"result\":\"recorded\"}\n": parkedRetryCmd{which},
	} {
		var out bytes.Buffer
		if err := c.Run(&cli.App{Ctx: t.Context(), Stdout: &out, JSON: true}); err != nil || out.String() != want {
			t.Errorf("%T: %v, printed %q, want %q", c, err, out.String(), want)
		}
	}
	which.All, which.Reason, which.ID = false, "", []uint64{2, 3}
	if err := (parkedDiscardCmd{which}).Run(&cli.App{Ctx: t.Context(), Stdout: new(bytes.Buffer)}); !errors.As(err, new(*cli.Problem)) {
		t.Errorf("one that was named and has gone: %v", err)
	}
}
