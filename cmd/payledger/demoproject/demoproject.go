// Package demoproject is the project, the key and the webhook endpoint of the demo. They
// are renewed at each start on the same directory.
package demoproject

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/admincmd"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/httpapi/wire"
)

const name = "Demo shop"

// state is the content of demo.json.
type state struct {
	ProjectID string `json:"project_id"`
	KeyID     string `json:"key_id"`

	EndpointID string `json:"endpoint_id,omitzero"`
}

// Hook is the endpoint that the demo sets up on request.
type Hook struct {
	EndpointID string `json:"webhook_endpoint_id,omitzero"`
	URL        string `json:"webhook_url,omitzero"`
	Secret     string `json:"webhook_secret,omitzero"`
}

// SetUp makes or renews the project and its key, and the endpoint if there is a URL, on
// the directory of a running server.
func SetUp(ctx context.Context, d datadir.Dir, webhook string) (admincmd.IssuedKey, Hook, error) {
	m := adminclient.Of(d)
	var last state
	content, err := os.ReadFile(d.Demo())
	if err == nil {
		err = json.Unmarshal(content, &last)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return admincmd.IssuedKey{}, Hook{}, fmt.Errorf("%s: %w; remove it to start with a new demo project", d.Demo(), err)
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
func issue(ctx context.Context, m *adminclient.Client, last state) (key admincmd.IssuedKey, err error) {
	// The log may have been restored to a time before the project or the key.
	made := last.ProjectID != ""
	if made {
		key, err = admincmd.IssueKey(ctx, m, last.ProjectID, "demo", nil)
		made = !adminclient.RefusedFor(err, domain.ProjectNotFound)
	}
	if !made {
		key, err = admincmd.RegisterProject(ctx, m, name)
	} else if err == nil {
		err = admincmd.RevokeKey(ctx, m, last.ProjectID, last.KeyID)
		if adminclient.RefusedFor(err, domain.KeyNotFound) {
			err = nil
		}
	}
	return key, err
}

// endpoint answers the demo's endpoint with a new secret. That of a start before is used
// again, pointed to the URL and enabled.
func endpoint(ctx context.Context, m *adminclient.Client, now state, to string) (Hook, error) {
	hook := func(e wire.Endpoint, err error) (Hook, error) { return Hook{e.ID, e.URL, e.Secret}, err }
	if now.EndpointID != "" {
		e, err := admincmd.RenewEndpoint(ctx, m, now.ProjectID, now.EndpointID, to)
		if !adminclient.RefusedFor(err, domain.WebhookEndpointNotFound) {
			return hook(e, err)
		}
	}
	all := make([]string, 0, len(domain.Kinds()))
	for _, k := range domain.Kinds() {
		all = append(all, string(k))
	}
	return hook(admincmd.AddEndpoint(ctx, m, now.ProjectID, to, all, "Set up by payledger demo"))
}
