package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	maxAnswer  = 64 << 10 // bytes that are read of a collector's answer
	firstPause = time.Second / 4
)

// client sends spans as OTLP/HTTP specifies it. It implements otlptrace.Client.
type client struct {
	settings settings
	http     *http.Client
}

// Start implements otlptrace.Client.
func (*client) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// rejectedError: the collector has taken all spans but these.
type rejectedError struct{ spans int }

func (e *rejectedError) Error() string {
	return fmt.Sprintf("the collector has rejected %d spans", e.spans)
}

// laterError: the collector asks for another try.
type laterError struct {
	err   error
	after time.Duration // 0: it does not say when
}

func (e *laterError) Error() string { return e.err.Error() }

// UploadTraces implements otlptrace.Client. It tries again after what OTLP calls
// retryable, until the export's time is over.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithTimeout(ctx, c.settings.timeout)
	defer cancel()
	// The bytes of an ExportTraceServiceRequest, which has the same one field; its Go
	// type comes with gRPC.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encoding spans: %w", err)
	}
	if c.settings.gzip {
		body = zipped(body)
	}
	for pause := firstPause; ; pause *= 2 {
		err := c.post(ctx, body)
		later := (*laterError)(nil)
		if !errors.As(err, &later) {
			return err
		}
		select {
		case <-ctx.Done():
			return later.err
		case <-time.After(max(pause, later.after)):
		}
	}
}

func zipped(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// post makes one try. Its errors hold neither the URL nor what the collector says,
// which might be secrets.
func (c *client) post(ctx context.Context, body []byte) error {
	req := (&http.Request{
		Method: http.MethodPost, URL: c.settings.url, Host: c.settings.url.Host, Header: c.settings.headers.Clone(),
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}).WithContext(ctx)
	req.Header.Set("Content-Type", "application/x-protobuf")
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "payledger")
	}
	if c.settings.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if in := (*url.Error)(nil); errors.As(err, &in) {
			err = in.Err // without the URL
		}
		return &laterError{err: err}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case resp.StatusCode/100 == 2 && err == nil:
		if n := rejected(answer); n > 0 {
			return &rejectedError{n}
		}
		return nil
	case resp.StatusCode/100 == 2:
		return nil // the spans are there
	}
	err = fmt.Errorf("the collector answers with status %d", resp.StatusCode)
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return &laterError{err, time.Duration(min(max(seconds, 0), 3600)) * time.Second}
	}
	return err
}

// rejected is how many spans a successful answer says were rejected: field 1 of
// field 1 of an ExportTraceServiceResponse, whose Go type comes with gRPC.
func rejected(answer []byte) int {
	partly, n := protowire.ConsumeBytes(field(answer, 1, protowire.BytesType))
	if n < 0 {
		return 0
	}
	spans, n := protowire.ConsumeVarint(field(partly, 1, protowire.VarintType))
	if n < 0 || spans > math.MaxInt32 {
		return 0
	}
	return int(spans)
}

// field is the rest of a message from a field's value on; nil: it has no such field.
func field(message []byte, number protowire.Number, of protowire.Type) []byte {
	for len(message) > 0 {
		at, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		message = message[n:]
		if at == number && kind == of {
			return message
		}
		if n = protowire.ConsumeFieldValue(at, kind, message); n < 0 {
			return nil
		}
		message = message[n:]
	}
	return nil
}
