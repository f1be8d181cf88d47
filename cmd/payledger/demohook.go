package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/service"
	"payledger/domain"
)

// listenAddr is where "payledger listen" listens when it is not told.
const (
	listenAddr = "127.0.0.1:8099"
	listenURL  = "http://" + listenAddr + "/"
)

// demoHook is the endpoint that the demo sets up on request.
type demoHook struct {
	EndpointID string `json:"webhook_endpoint_id,omitzero"`
	URL        string `json:"webhook_url,omitzero"`
	Secret     string `json:"webhook_secret,omitzero"`
}

// demoEndpoint answers the demo's endpoint with a new secret. That of a start
// before is used again, pointed to the URL and enabled.
func demoEndpoint(ctx context.Context, m *adminclient.Client, now demoState, to string) (demoHook, error) {
	project := projectPath(now.ProjectID)
	hook := func(e endpoint, err error) (demoHook, error) { return demoHook{e.ID, e.URL, e.Secret}, err }
	if now.EndpointID != "" {
		var e endpoint
		path := endpointPath(project, now.EndpointID)
		err := m.Call(ctx, http.MethodPost, path, endpointBody{URL: to}, &e)
		if !refusedFor(err, domain.WebhookEndpointNotFound) {
			if err == nil {
				err = m.Call(ctx, http.MethodPost, path+"/enable", nil, &e)
			}
			if err == nil {
				err = m.Call(ctx, http.MethodPost, path+"/rotate-secret", nil, &e)
			}
			return hook(e, err)
		}
	}
	var e endpoint
	all := make([]string, 0, len(domain.Kinds()))
	for _, k := range domain.Kinds() {
		all = append(all, string(k))
	}
	note := "Set up by payledger demo"
	err := m.Call(ctx, http.MethodPost, endpointsPath(project), endpointBody{to, all, &note}, &e)
	return hook(e, err)
}

func (a *app) greetHook(at service.Addresses, h demoHook) error {
	if h.EndpointID == "" {
		return nil
	}
	_, err := fmt.Fprintf(a.stdout, `
Webhooks go to %s as they happen, signed with %s

`, h.URL, h.Secret)
	if err != nil {
		return err
	}
	if addr, ok := h.onThisMachine(); ok {
		_, err = fmt.Fprintf(a.stdout, "See them arrive, in another terminal:\n\n  %s listen%s --secret %s\n", programName(os.Args[0]), addr, h.Secret)
	} else {
		_, err = fmt.Fprintf(a.stdout, "Send a test:  %s webhook test %s --data %s\n", programName(os.Args[0]), h.EndpointID, at.Data)
	}
	return err
}

// onThisMachine answers the flag that "payledger listen" needs to be where the
// endpoint points to, if it can be.
func (h demoHook) onThisMachine() (flag string, ok bool) {
	u, err := url.Parse(h.URL)
	if err != nil || u.Scheme != "http" {
		return "", false
	}
	host, port := u.Hostname(), u.Port()
	if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
		return "", false
	}
	if port == "" {
		port = "80"
	}
	if addr := net.JoinHostPort(host, port); addr != listenAddr {
		return " --addr " + addr, true
	}
	return "", true
}
