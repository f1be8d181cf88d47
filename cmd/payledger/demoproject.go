package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/process"
	"payledger/domain"
	"payledger/httpapi/wire"
)

// listenAddr is the default address of "payledger listen".
const (
	listenAddr = "127.0.0.1:8099"
	listenURL  = "http://" + listenAddr + "/"
)

const demoProjects = "/admin/projects"

// demoState is the content of demo.json.
type demoState struct {
	ProjectID string `json:"project_id"`
	KeyID     string `json:"key_id"`

	EndpointID string `json:"endpoint_id,omitzero"`
}

// demoKey is the demo's key, with its secret.
type demoKey struct {
	ProjectID string `json:"project_id"`
	KeyID     string `json:"key_id"`
	APIKey    string `json:"api_key"`
}

// demoHook is the endpoint that the demo sets up on request.
type demoHook struct {
	EndpointID string `json:"webhook_endpoint_id,omitzero"`
	URL        string `json:"webhook_url,omitzero"`
	Secret     string `json:"webhook_secret,omitzero"`
}

// setUp makes or renews the demo's project and its key, and the endpoint if there is a
// URL, on the directory of a running server.
func (c demoCmd) setUp(a *cli.App, d datadir.Dir) (key demoKey, hook demoHook, err error) {
	ctx, cancel := context.WithTimeout(a.Ctx, datadir.AdminWait)
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("setting up the demo project: %w", err)
		}
	}()
	m := cli.ClientOf(d.DialSocket, a.As)
	var last demoState
	content, err := os.ReadFile(d.Demo())
	if err == nil {
		err = json.Unmarshal(content, &last)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return key, hook, fmt.Errorf("%s: %w; remove it to start with a new demo project", d.Demo(), err)
	}
	if key, err = issueDemoKey(ctx, m, last); err != nil {
		return key, hook, err
	}
	now := demoState{key.ProjectID, key.KeyID, ""}
	if key.ProjectID == last.ProjectID {
		now.EndpointID = last.EndpointID
	}
	if c.WebhookURL != "" {
		if hook, err = demoEndpoint(ctx, m, now, c.WebhookURL); err != nil {
			return key, hook, err
		}
		now.EndpointID = hook.EndpointID
	}
	kept, err := json.Marshal(now)
	if err != nil {
		return key, hook, err
	}
	return key, hook, datadir.WriteFileSynced(d.Demo(), append(kept, '\n'))
}

// issueDemoKey returns a new key of the demo project, which it makes when there is none, and
// revokes the key of the start before.
func issueDemoKey(ctx context.Context, m *cli.Client, last demoState) (key demoKey, err error) {
	keys := demoProjects + "/" + last.ProjectID + "/keys"
	// The log may have been restored to a time before the project or the key.
	made := last.ProjectID != ""
	if made {
		key.ProjectID = last.ProjectID
		err = m.Call(ctx, http.MethodPost, keys, map[string]any{"name": "demo"}, &key)
		made = !cli.RefusedFor(err, domain.ProjectNotFound)
	}
	if !made {
		err = m.Call(ctx, http.MethodPost, demoProjects, map[string]any{"name": "Demo shop"}, &key)
	} else if err == nil {
		err = m.Call(ctx, http.MethodDelete, keys+"/"+last.KeyID, nil, nil)
		if cli.RefusedFor(err, domain.KeyNotFound) {
			err = nil
		}
	}
	return key, err
}

// demoEndpoint returns the demo's endpoint with a new secret. That of a start before is used
// again, pointed to the URL and enabled.
func demoEndpoint(ctx context.Context, m *cli.Client, now demoState, to string) (demoHook, error) {
	endpoints := demoProjects + "/" + now.ProjectID + "/webhook-endpoints"
	var e wire.Endpoint
	if one := endpoints + "/" + now.EndpointID; now.EndpointID != "" {
		err := m.Call(ctx, http.MethodPost, one, map[string]any{"url": to}, nil)
		if err == nil {
			err = m.Call(ctx, http.MethodPost, one+"/enable", nil, nil)
		}
		if err == nil {
			err = m.Call(ctx, http.MethodPost, one+"/rotate-secret", nil, &e)
		}
		if !cli.RefusedFor(err, domain.WebhookEndpointNotFound) {
			return demoHook{e.ID, e.URL, e.Secret}, err
		}
	}
	err := m.Call(ctx, http.MethodPost, endpoints, map[string]any{
		"url": to, "kinds": domain.Kinds(), "description": "Set up by payledger demo",
	}, &e)
	return demoHook{e.ID, e.URL, e.Secret}, err
}

// greeting says where webhooks go and how to see them, "" without an endpoint.
func (h demoHook) greeting(data string) string {
	if h.EndpointID == "" {
		return ""
	}
	text := fmt.Sprintf("\nWebhooks go to %s as they happen, signed with %s\n\n", h.URL, h.Secret)
	addr, ok := h.onThisMachine()
	if !ok {
		return text + fmt.Sprintf("Send a test:  %s webhook test %s --data %s\n", process.Name(os.Args[0]), h.EndpointID, shellWord(data))
	}
	flag := ""
	if addr != listenAddr {
		flag = " --addr " + addr
	}
	return text + fmt.Sprintf("See them arrive, in another terminal:\n\n  %s listen%s --secret %s\n", process.Name(os.Args[0]), flag, h.Secret)
}

// onThisMachine returns the address at which "payledger listen" receives the
// endpoint's notifications; ok is false if the URL is elsewhere or not http.
func (h demoHook) onThisMachine() (addr string, ok bool) {
	u, err := url.Parse(h.URL)
	if err != nil || u.Scheme != "http" {
		return "", false
	}
	host := u.Hostname()
	if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
		return "", false
	}
	return net.JoinHostPort(host, cmp.Or(u.Port(), "80")), true
}
