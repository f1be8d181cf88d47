package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
)

func TestAdminBackup(t *testing.T) {
	t.Parallel()
	copied := bytes.Repeat([]byte("log"), 100_000)
	s := start(t, func(c *settings) {
		c.Backup = func(_ context.Context, begin func(eventstore.Position, int64) (io.Writer, error)) error {
			w, err := begin(7, int64(len(copied)))
			if err != nil {
				return err
			}
			_, err = w.Write(copied)
			return err
		}
	})
	a := s.adminDo("GET", "/admin/backup", "").want(200, "")
	if !bytes.Equal(a.Body, copied) || a.Header.Get("Payledger-Position") != "7" || a.Header.Get("Content-Type") != "application/octet-stream" ||
		a.Header.Get("Content-Length") != fmt.Sprint(len(copied)) {
		t.Errorf("%d bytes, %v", len(a.Body), a.Header)
	}
	s.adminDo("GET", "/admin/backup?x=1", "").want(400, domain.InvalidParameter)
	s.adminDo("HEAD", "/admin/backup", "").want(200, "")
	start(t).adminDo("GET", "/admin/backup", "").want(404, domain.PathNotFound)
}

// A copy that breaks off cannot be mistaken for a whole one. One that cannot begin
// is a problem document.
func TestAdminBackupFails(t *testing.T) {
	t.Parallel()
	begun := false
	s := start(t, func(c *settings) {
		c.Backup = func(_ context.Context, begin func(eventstore.Position, int64) (io.Writer, error)) error {
			if begun {
				if _, err := begin(7, 1000); err != nil {
					return err
				}
			}
			return errors.New("the disk is gone")
		}
	})
	s.adminDo("GET", "/admin/backup", "").want(500, domain.InternalError)
	begun = true
	listener := httptest.NewServer(s.admin)
	t.Cleanup(listener.Close)
	res, err := listener.Client().Get(listener.URL + "/admin/backup")
	if err == nil {
		defer res.Body.Close()
		_, err = io.ReadAll(res.Body)
	}
	if err == nil {
		t.Error("ended in order")
	}
}

// A client that requests a copy and does not read it must not pin the log for ever.
func TestAdminBackupEndsForStalledReader(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s := start(t, func(c *settings) {
		c.Backup = func(_ context.Context, begin func(eventstore.Position, int64) (io.Writer, error)) error {
			const size = 64 << 20
			w, err := begin(7, size)
			for n := 0; err == nil && n < size; n += 1 << 16 {
				_, err = w.Write(make([]byte, 1<<16))
			}
			ended <- err
			return err
		}
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.bounded(s.admin, 50*time.Millisecond), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s /admin/backup HTTP/1.1\r\nHost: x\r\n\r\n", http.MethodGet)
	select {
	case err := <-ended:
		if err == nil {
			t.Error("somebody took it all")
		}
	case <-time.After(2 * time.Minute):
		t.Error("the copy waits for ever")
	}
}
