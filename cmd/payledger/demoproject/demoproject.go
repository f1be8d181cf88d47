// Package demoproject is the project, the key and the webhook endpoint of the demo. They
// are renewed at each start on the same directory.
package demoproject

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/httpapi/wire"
)

const (
	name     = "Demo shop"
	projects = "/admin/projects"
)

// state is the content of demo.json.
type state struct {
	ProjectID string `json:"project_id"`
	KeyID     string `json:"key_id"`

	EndpointID string `json:"endpoint_id,omitzero"`
}

// Key is the demo's key, with its secret.
type Key struct {
	ProjectID string `json:"project_id"`
	KeyID     string `json:"key_id"`
	APIKey    string `json:"api_key"`
}

// Hook is the endpoint that the demo sets up on request.
type Hook struct {
	EndpointID string `json:"webhook_endpoint_id,omitzero"`
	URL        string `json:"webhook_url,omitzero"`
	Secret     string `json:"webhook_secret,omitzero"`
}

// SetUp makes or renews the project and its key, and the endpoint if there is a URL, on
// the directory of a running server.
func SetUp(ctx context.Context, d datadir.Dir, webhook string) (Key, Hook, error) {
	m := cli.ClientOf(d.DialSocket)
	var last state
	content, err := os.ReadFile(d.Demo())
	if err == nil {
		err = json.Unmarshal(content, &last)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Key{}, Hook{}, fmt.Errorf("%s: %w; remove it to start with a new demo project", d.Demo(), err)
	}
	key, err := issue(ctx, m, last)
	if err != nil {
		return key, Hook{}, err
	}
	now := state{key.ProjectID, key.KeyID, ""}
	if key.ProjectID == last.ProjectID {
		now.EndpointID = last.EndpointID
	}
	var hook Hook
	if webhook != "" {
		if hook, err = endpoint(ctx, m, now, webhook); err != nil {
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

// issue answers a new key of the demo project, which it makes when there is none, and
// revokes the key of the start before.
func issue(ctx context.Context, m *cli.Client, last state) (key Key, err error) {
	keys := projects + "/" + last.ProjectID + "/keys"
	// The log may have been restored to a time before the project or the key.
	made := last.ProjectID != ""
	if made {
		key.ProjectID = last.ProjectID
		err = m.Call(ctx, http.MethodPost, keys, map[string]any{"name": "demo"}, &key)
		made = !cli.RefusedFor(err, domain.ProjectNotFound)
	}
	if !made {
		err = m.Call(ctx, http.MethodPost, projects, map[string]any{"name": name}, &key)
	} else if err == nil {
		err = m.Call(ctx, http.MethodDelete, keys+"/"+last.KeyID, nil, nil)
		if cli.RefusedFor(err, domain.KeyNotFound) {
			err = nil
		}
	}
	return key, err
}

// endpoint answers the demo's endpoint with a new secret. That of a start before is used
// again, pointed to the URL and enabled.
func endpoint(ctx context.Context, m *cli.Client, now state, to string) (Hook, error) {
	endpoints := projects + "/" + now.ProjectID + "/webhook-endpoints"
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
			return Hook{e.ID, e.URL, e.Secret}, err
		}
	}
	err := m.Call(ctx, http.MethodPost, endpoints, map[string]any{
		"url": to, "kinds": domain.Kinds(), "description": "Set up by payledger demo",
	}, &e)
	return Hook{e.ID, e.URL, e.Secret}, err
}
