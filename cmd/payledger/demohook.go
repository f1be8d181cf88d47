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
	"payledger/httpapi/wire"
)

// listenAddr is the default address of "payledger listen".
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
	hook := func(e wire.Endpoint, err error) (demoHook, error) { return demoHook{e.ID, e.URL, e.Secret}, err }
	if now.EndpointID != "" {
		var e wire.Endpoint
		path := endpointPath(project, now.EndpointID)
		err := m.Call(ctx, http.MethodPost, path, endpointBody{URL: to}, &e)
		if !adminclient.RefusedFor(err, domain.WebhookEndpointNotFound) {
			if err == nil {
				err = m.Call(ctx, http.MethodPost, path+"/enable", nil, &e)
			}
			if err == nil {
				err = m.Call(ctx, http.MethodPost, path+"/rotate-secret", nil, &e)
			}
			return hook(e, err)
		}
	}
	var e wire.Endpoint
	all := make([]string, 0, len(domain.Kinds()))
	for _, k := range domain.Kinds() {
		all = append(all, string(k))
	}
	note := "Set up by payledger demo"
	err := m.Call(ctx, http.MethodPost, endpointsPath(project), endpointBody{to, all, &note}, &e)
	return hook(e, err)
}

// greeting says where webhooks go and how to see them, "" without an endpoint.
func (h demoHook) greeting(at service.Addresses) string {
	if h.EndpointID == "" {
		return ""
	}
	text := fmt.Sprintf("\nWebhooks go to %s as they happen, signed with %s\n\n", h.URL, h.Secret)
	addr, ok := h.onThisMachine()
	if !ok {
		return text + fmt.Sprintf("Send a test:  %s webhook test %s --data %s\n", programName(os.Args[0]), h.EndpointID, shellWord(at.Data))
	}
	flag := ""
	if addr != listenAddr {
		flag = " --addr " + addr
	}
	return text + fmt.Sprintf("See them arrive, in another terminal:\n\n  %s listen%s --secret %s\n", programName(os.Args[0]), flag, h.Secret)
}

// onThisMachine returns the address at which "payledger listen" receives the
// endpoint's notifications; ok is false if the URL is elsewhere or not http.
func (h demoHook) onThisMachine() (addr string, ok bool) {
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
	return net.JoinHostPort(host, port), true
}
