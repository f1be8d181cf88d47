package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/httpapi/wire"
)

// Client talks to the admin interface of a data directory: over the socket of
// the server that runs on it, or else over one that this process serves while
// it holds the directory itself.
type Client struct {
	HTTP  *http.Client
	Close func() error
	Live  bool   // a server runs on the directory
	As    string // the actor's name
}

// ClientOf is the client of the server that runs on a directory, whose socket dial
// connects to. as is the actor's name; "" only where nothing is recorded.
func ClientOf(dial func(context.Context) (net.Conn, error), as string) *Client {
	return &Client{Close: func() error { return nil }, Live: true, As: as, HTTP: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}}
}

// Call sends a request and decodes the answer into out, which may be nil.
func (m *Client) Call(ctx context.Context, method, path string, in, out any) error {
	resp, err := m.Send(ctx, method, path, in)
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

// Send sends a request. An answer other than 2xx becomes an error.
func (m *Client) Send(ctx context.Context, method, path string, in any) (*http.Response, error) {
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
	if m.As != "" {
		req.Header.Set(wire.OperatorHeader, m.As)
	}
	resp, err := m.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the server: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, WithCode(ExitRefused, readProblem(resp))
	}
	return resp, nil
}

// Text gets a text of at most so many bytes.
func (m *Client) Text(ctx context.Context, path string, most int64) ([]byte, error) {
	resp, err := m.Send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return nil, fmt.Errorf("reading the answer to GET %s: %w", path, err)
	}
	return text, nil
}

// Problem is the ledger's refusal, in the words that a person at a command line
// needs of it.
type Problem struct {
	wire.Problem

	// Members names the flags and arguments that members of a request come from.
	Members map[string]Member
}

// Member is a flag or an argument of a command.
type Member struct{ Name, Help string }

// Error returns the refusal without the interface it came through: what is wrong
// with which flag, or the ledger's sentence.
func (p *Problem) Error() string {
	if p.Code == domain.Unconfirmed {
		return "It is not known yet whether this was recorded. Check whether it is done before you repeat the command."
	}
	if len(p.Errors) == 0 {
		if of, known := p.Members[strings.ReplaceAll(p.Parameter, "-", "_")]; known {
			return of.Name + ": " + spoken(p.Detail)
		}
		if p.EventID != "" {
			return strings.Replace(spoken(p.Detail), "the event in event_id", p.EventID, 1)
		}
		return spoken(p.Detail)
	}
	lines := make([]string, len(p.Errors))
	for i, e := range p.Errors {
		member := e.Pointer[strings.LastIndex(e.Pointer, "/")+1:]
		of, known := p.Members[member]
		if !known {
			of, known = p.Members[strings.TrimSuffix(member, "_seconds")]
		}
		if !known {
			of.Name = strings.ReplaceAll(member, "_", " ")
		}
		lines[i] = of.Name + ": " + spoken(e.Detail)
		if e.Code == domain.InvalidValue && of.Help != "" {
			lines[i] += " " + of.Help
		}
	}
	text := strings.Join(lines, "\n  ")
	if slices.ContainsFunc(p.Errors, func(f wire.FieldProblem) bool { return f.Code == domain.TargetNotAllowed }) {
		text += "\nFor development: \"payledger serve --webhook-allow-private\" takes any address, " +
			"and so does this command with that flag while no server runs"
	}
	return text
}

// spoken is a sentence for programs as one for people.
func spoken(detail string) string {
	return strings.NewReplacer(
		"Send ", "Give ", " send ", " give ", " (in an offset write + as %2B)", "", "; in an offset write + as %2B", "", "This field is required", "It is required",
		"See errors for each of them.", "", "repeat the request with the same Idempotency-Key, or look the object up", "check whether it is done before you repeat the command", " for this project. List them with GET /v1/settlements.", ": payledger settlement list shows those there are.",
	).Replace(detail)
}

// RefusedFor reports whether an error is the ledger's refusal with this code.
func RefusedFor(err error, code domain.Code) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Code == code
}

func readProblem(resp *http.Response) error {
	var p Problem
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil || json.Unmarshal(b, &p.Problem) != nil || p.Code == "" {
		return fmt.Errorf("the server answered %s", resp.Status)
	}
	return &p
}
