package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/httpserver"
	httpadmin "payledger/httpapi/admin"
	"payledger/httpapi/conns"
)

// Connect connects to the admin interface of a directory. If no server holds
// it, this process does, and o says how.
func Connect(ctx context.Context, d datadir.Dir, o CoreOptions, stderr io.Writer) (*cli.Client, error) {
	var own *cli.Client
	live, err := d.Reach(ctx, func() (err error) {
		own, err = ownAdmin(ctx, d, o, stderr)
		return err
	})
	if live {
		return cli.ClientOf(d.DialSocket), nil
	}
	return own, err
}

// ownAdmin opens the directory and serves its admin interface to this process only.
func ownAdmin(ctx context.Context, d datadir.Dir, o CoreOptions, stderr io.Writer) (*cli.Client, error) {
	o.Log, o.Progress = zerolog.New(io.Discard), cli.Progress(stderr, "Reading the log")
	core, err := openCore(ctx, d, o)
	switch {
	case o.Reading && notWritable(err):
		return readingAdmin(ctx, d, o, stderr, "cannot be written to")
	case o.Reading && err != nil && d.Clustered():
		return readingAdmin(ctx, d, o, stderr, "is a node of a cluster that does not run")
	}
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "payledger")
	if err != nil {
		return nil, errors.Join(err, core.close())
	}
	private := datadir.Dir(tmp)
	if missing := core.signed.Missing(); missing != "" {
		fmt.Fprintf(stderr, "payledger: %s\n", missing)
	}
	closeAll := func() error { return errors.Join(core.close(), core.signed.Failure(), os.RemoveAll(tmp)) }
	handler, err := core.adminHandler(httpadmin.Config{})
	return serveAdmin(private, handler, err, closeAll)
}

// serveAdmin serves a handler on a socket in a directory of this process. It
// passes on an error of the handler's construction.
func serveAdmin(private datadir.Dir, handler http.Handler, err error, closeAll func() error) (*cli.Client, error) {
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	l, err := private.ListenSocket()
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	server, err := httpserver.Serve(l, handler, conns.Config{Name: "admin", Max: httpserver.MaxAdminConnections})
	if err != nil {
		return nil, errors.Join(err, l.Close(), closeAll())
	}
	own := cli.ClientOf(private.DialSocket)
	own.Live = false
	own.Close = func() error { return errors.Join(server.Close(), closeAll()) }
	return own, nil
}
