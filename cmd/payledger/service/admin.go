package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"syscall"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/process"
	"payledger/eventstore/bolt"
	"payledger/httpapi/conns"
)

// Connect connects to the admin interface of a directory. If no server holds
// it, this process does, and o says how.
func Connect(ctx context.Context, d datadir.Dir, o Options, stderr io.Writer) (*cli.Client, error) {
	var own *cli.Client
	live, err := d.Reach(ctx, func() (err error) {
		own, err = ownAdmin(ctx, d, o, stderr)
		return err
	})
	if live {
		return cli.ClientOf(d.DialSocket, ""), nil
	}
	return own, err
}

// ownAdmin opens the directory and serves its admin interface to this process.
func ownAdmin(ctx context.Context, d datadir.Dir, o Options, stderr io.Writer) (*cli.Client, error) {
	o.Log, o.Stderr = zerolog.New(io.Discard), stderr
	own, err := serveOwn(func(parts *process.Parts, _ datadir.Dir) (http.Handler, error) {
		a := &app{Options: o, dir: d, parts: parts}
		if err := a.start(ctx, a.directory()); err != nil {
			return nil, err
		}
		if missing := a.signed.Missing(); missing != "" {
			fmt.Fprintf(stderr, "payledger: %s\n", missing)
		}
		return a.adminHandler()
	})
	_, opening := errors.AsType[*bolt.OpenError](err)
	switch {
	case o.Reading && opening && (errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)):
		return readDirectory(ctx, d, stderr, "cannot be written to")
	case o.Reading && err != nil && d.Clustered():
		return readDirectory(ctx, d, stderr, "is a node of a cluster that does not run")
	}
	return own, err
}

// serveOwn serves to this process what opens makes: a handler, and among the parts what it needs,
// with a temporary directory for what is derived.
func serveOwn(open func(parts *process.Parts, tmp datadir.Dir) (http.Handler, error)) (_ *cli.Client, err error) {
	parts := process.NewParts()
	defer func() {
		if err != nil {
			err = errors.Join(err, parts.Stop())
		}
	}()
	tmp, err := os.MkdirTemp("", "payledger")
	if err != nil {
		return nil, err
	}
	parts.Add("temporary directory", process.Part{Stop: func() error { return os.RemoveAll(tmp) }})
	handler, err := open(parts, datadir.Dir(tmp))
	if err != nil {
		return nil, err
	}
	l, err := datadir.Dir(tmp).ListenSocket()
	if err != nil {
		return nil, err
	}
	server, err := process.Serve(l, handler, conns.Config{Name: "admin", Max: process.MaxAdminConnections})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	parts.Add("requests", process.Part{Stop: server.Close})
	own := cli.ClientOf(datadir.Dir(tmp).DialSocket, "")
	own.Live, own.Close = false, parts.Stop
	return own, nil
}
