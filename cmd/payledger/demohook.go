package main

import (
	"fmt"
	"net"
	"net/url"
	"os"

	"payledger/cmd/payledger/demoproject"
	"payledger/cmd/payledger/process"
	"payledger/cmd/payledger/service"
)

// listenAddr is the default address of "payledger listen".
const (
	listenAddr = "127.0.0.1:8099"
	listenURL  = "http://" + listenAddr + "/"
)

// demoHook is the endpoint that the demo sets up on request.
type demoHook struct{ demoproject.Hook }

// greeting says where webhooks go and how to see them, "" without an endpoint.
func (h demoHook) greeting(at service.Addresses) string {
	if h.EndpointID == "" {
		return ""
	}
	text := fmt.Sprintf("\nWebhooks go to %s as they happen, signed with %s\n\n", h.URL, h.Secret)
	addr, ok := h.onThisMachine()
	if !ok {
		return text + fmt.Sprintf("Send a test:  %s webhook test %s --data %s\n", process.Name(os.Args[0]), h.EndpointID, shellWord(at.Data))
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
	host, port := u.Hostname(), u.Port()
	if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
		return "", false
	}
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(host, port), true
}
