package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"
)

// inDirectory is the flag of commands that work on a data directory, whether
// a server runs on it or not.
type inDirectory struct {
	Data string `help:"Data directory." required:"" placeholder:"DIR"`
}

// Validate refuses the name that an unset variable of a shell leaves, which
// would otherwise be the working directory.
func (c inDirectory) Validate() error {
	if c.Data == "" {
		return errors.New("missing flags: --data=DIR, which may not be empty")
	}
	return nil
}

// admin talks to the admin interface of a data directory: over the socket of
// the server that runs on it, or else over one that this process serves while
// it holds the directory itself.
type admin struct {
	http  *http.Client
	close func() error
	live  bool // a server runs on the directory
}

// admin connects to the admin interface. If no server holds the directory, o
// says how this process does.
func (c inDirectory) admin(a *app, o coreOptions) (*admin, error) {
	d := dataDir(c.Data)
	var own *admin
	live, err := d.reach(a.ctx, func() (err error) {
		own, err = ownAdmin(a.ctx, d, o, a.stderr)
		return err
	})
	if live {
		return &admin{http: socketClient(d), close: func() error { return nil }, live: true}, nil
	}
	return own, err
}

// ownAdmin opens the directory and serves its admin interface to this process
// alone.
func ownAdmin(ctx context.Context, d dataDir, o coreOptions, stderr io.Writer) (*admin, error) {
	o.Log, o.Progress = zerolog.New(io.Discard), newProgress(stderr, "Reading the log")
	core, err := openCore(ctx, d, o)
	if o.Reading && notWritable(err) {
		return readingAdmin(ctx, d, o, stderr)
	}
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "payledger")
	if err != nil {
		return nil, errors.Join(err, core.close())
	}
	private := dataDir(tmp)
	if core.signed.missing != "" {
		fmt.Fprintf(stderr, "payledger: %s\n", core.signed.missing)
	}
	closeAll := func() error { return errors.Join(core.close(), core.signed.failure(), os.RemoveAll(tmp)) }
	handler, err := core.adminHandler(nil, nil)
	return serveAdmin(private, handler, err, closeAll)
}

// serveAdmin serves a handler, unless there is an error, on a socket in a
// directory of this process.
func serveAdmin(private dataDir, handler http.Handler, err error, closeAll func() error) (*admin, error) {
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	l, err := private.listenSocket()
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return &admin{http: socketClient(private), close: func() error {
		return errors.Join(server.Close(), ignoreClosed(<-served), closeAll())
	}}, nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func socketClient(d dataDir) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.dialSocket(ctx)
		},
	}}
}

// call sends a request and decodes the answer into out, which may be nil.
func (m *admin) call(ctx context.Context, method, path string, in, out any) error {
	resp, err := m.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.UnmarshalRead(resp.Body, out); err != nil {
		return fmt.Errorf("the server's answer to %s %s cannot be read: %w", method, path, err)
	}
	return nil
}

// send sends a request. An answer other than 2xx becomes an error.
func (m *admin) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://payledger"+path, body)
	if err != nil {
		return nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := m.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the server: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, &exitError{exitRefused, readProblem(resp)}
	}
	return resp, nil
}

// problem is what of a problem document (RFC 9457) a person needs. As an error
// it is the ledger's refusal.
type problem struct {
	Title  string         `json:"title"`
	Code   string         `json:"code"`
	Detail string         `json:"detail"`
	Errors []fieldProblem `json:"errors"`
}

// fieldProblem is what is wrong with one field.
type fieldProblem struct {
	Pointer string `json:"pointer"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

func (p *problem) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s (%s)", p.Detail, p.Code)
	for _, e := range p.Errors {
		fmt.Fprintf(&s, "\n  %s: %s (%s)", strings.TrimPrefix(e.Pointer, "#/"), e.Detail, e.Code)
	}
	return s.String()
}

func readProblem(resp *http.Response) error {
	var p problem
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || json.Unmarshal(b, &p) != nil || p.Code == "" {
		return fmt.Errorf("the server answered %s", resp.Status)
	}
	return &p
}
