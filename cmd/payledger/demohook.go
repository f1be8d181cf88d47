package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/admincmd"
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
	hook := func(e wire.Endpoint, err error) (demoHook, error) { return demoHook{e.ID, e.URL, e.Secret}, err }
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
