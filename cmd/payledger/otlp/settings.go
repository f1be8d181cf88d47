package otlp

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// settings are those of OpenTelemetry's "OTLP Exporter Configuration". The SDK
// reads the rest of the environment itself: the sampler, the batches, the limits
// of spans and the resource.
type settings struct {
	url     *url.URL
	headers http.Header
	timeout time.Duration // of one export, with its retries
	gzip    bool
	tls     *tls.Config
}

// settingsOf reads the environment; nil: nothing is to be exported. No error holds
// a value of the environment, since there are secrets among them.
func settingsOf(env func(string) string) (*settings, error) {
	of := func(name string) string {
		return strings.TrimSpace(cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_"+name), env("OTEL_EXPORTER_OTLP_"+name)))
	}
	raw, path := env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), ""
	if raw == "" {
		raw, path = env("OTEL_EXPORTER_OTLP_ENDPOINT"), "v1/traces"
	}
	if raw == "" || strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	switch env("OTEL_TRACES_EXPORTER") {
	case "none":
		return nil, nil
	case "", "otlp":
	default:
		return nil, errors.New("OTEL_TRACES_EXPORTER: only otlp is known, and none")
	}
	if p := of("PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, errors.New("OTEL_EXPORTER_OTLP_PROTOCOL: only http/protobuf is known, to a collector's port 4318")
	}
	s := &settings{headers: make(http.Header), timeout: 10 * time.Second}
	var err error
	if s.url, err = url.Parse(strings.TrimSpace(raw)); err != nil || (s.url.Scheme != "http" && s.url.Scheme != "https") || s.url.Host == "" {
		return nil, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT: want a URL, as http://127.0.0.1:4318")
	}
	if s.url.Path == "" {
		s.url.Path = "/"
	}
	if path != "" {
		s.url = s.url.JoinPath(path)
	}
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		if err := s.addHeaders(env(prefix)); err != nil {
			return nil, fmt.Errorf("%s: %w", prefix, err)
		}
	}
	if ms := of("TIMEOUT"); ms != "" {
		n, err := strconv.Atoi(ms)
		if err != nil || n <= 0 {
			return nil, errors.New("OTEL_EXPORTER_OTLP_TIMEOUT: want milliseconds")
		}
		s.timeout = time.Duration(n) * time.Millisecond
	}
	switch of("COMPRESSION") {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		return nil, errors.New("OTEL_EXPORTER_OTLP_COMPRESSION: only gzip is known, and none")
	}
	s.tls, err = tlsOf(of("CERTIFICATE"), of("CLIENT_CERTIFICATE"), of("CLIENT_KEY"))
	return s, err
}

// addHeaders reads "name=value,name=value", where values may be percent-encoded.
func (s *settings) addHeaders(list string) error {
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return errors.New("want name=value,name=value")
		}
		s.headers.Set(name, value)
	}
	return nil
}

func tlsOf(roots, certificate, key string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if roots != "" {
		pem, err := os.ReadFile(roots)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("OTEL_EXPORTER_OTLP_CERTIFICATE: no certificate in PEM is in the file")
		}
	}
	if certificate != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// shown is the endpoint as it may be logged.
func (s *settings) shown() string { return s.url.Scheme + "://" + s.url.Host }

// client has one connection: exports come one after the other.
func (s *settings) client() *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: s.tls, ForceAttemptHTTP2: true, MaxConnsPerHost: 1, IdleConnTimeout: 30 * time.Second,
			MaxResponseHeaderBytes: maxAnswer,
		},
	}
}
