// Command postgres is the baseline of payledger-bench that stores payments
// as most services do: net/http, pgx and PostgreSQL, with a table of payments,
// one of idempotency keys and an outbox, written in one transaction and one
// round trip. It is a module of its own so that the ledger does not depend on
// a database driver.
//
// It reads the URL of the database from BENCH_POSTGRES_URL, keeps its tables
// in the schema payledger_bench, which it drops at the start and at the end,
// and says on stdout how it is reached.
package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gorilla/mux"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	project = "prj_01M7W78FJBM8T4R7B5N0C1D2E3"
	maxBody = 16 << 10

	// connections to the database: more of them made it slower on two cores.
	connections = 32
)

const schema = `
drop schema if exists payledger_bench cascade;
create schema payledger_bench;
create table payledger_bench.payments (
	id text primary key, project text not null, status text not null, amount numeric(11,2) not null, currency text not null,
	description text, payload text not null, created_at timestamptz not null);
create table payledger_bench.idempotency (
	project text not null, key text not null, fingerprint bytea not null, payment text not null, primary key (project, key));
create table payledger_bench.outbox (position bigserial primary key, payment text not null, body text not null)`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("BENCH_POSTGRES_URL"), os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "payledger-bench-postgres: %v\n", err)
		stop()
		os.Exit(1) //nolint:gocritic // stopped above
	}
}

func run(ctx context.Context, url string, stdout io.Writer) (err error) {
	if url == "" {
		return errors.New("BENCH_POSTGRES_URL is empty: want the URL of a database in which a schema may be made")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	config.MaxConns, config.MinConns = connections, connections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, schema); err != nil {
		return fmt.Errorf("making the tables: %w", err)
	}
	defer func() {
		_, dropErr := pool.Exec(context.WithoutCancel(ctx), "drop schema payledger_bench cascade")
		err = errors.Join(err, dropErr)
	}()

	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	key := "sk_" + strings.ToLower(rand.Text()+rand.Text())
	s := &server{pool: pool, hash: sha256.Sum256([]byte(key)), base: "http://" + l.Addr().String()}
	h := &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	err = json.NewEncoder(stdout).Encode(map[string]string{"base_url": s.base, "project_id": project, "api_key": key})
	if err == nil {
		<-ctx.Done()
	}
	err = errors.Join(err, h.Close())
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

type server struct {
	pool *pgxpool.Pool
	hash [32]byte
	base string
}

func (s *server) routes() http.Handler {
	r := mux.NewRouter()
	r.HandleFunc("/v1/payments", s.checked(s.create)).Methods(http.MethodPost)
	r.HandleFunc("/v1/payments/{id}", s.checked(s.get)).Methods(http.MethodGet)
	r.HandleFunc("/v1/backlog", s.checked(func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, []byte("0")) }))
	return r
}

// checked lets requests with the right key pass.
func (s *server) checked(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		p, key, _ := strings.Cut(rest, ":")
		hash := sha256.Sum256([]byte(key))
		if !ok || p != project || subtle.ConstantTimeCompare(hash[:], s.hash[:]) != 1 {
			reply(w, http.StatusUnauthorized, []byte(`{"code":"unauthorized"}`))
			return
		}
		h(w, r)
	}
}

func (s *server) create(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var in struct {
		Amount      string          `json:"amount"`
		Description *string         `json:"description"`
		Payload     json.RawMessage `json:"payload"`
	}
	key := r.Header.Get("Idempotency-Key")
	if err != nil || json.Unmarshal(body, &in) != nil || in.Description == nil || len(key) != 36 {
		reply(w, http.StatusBadRequest, []byte(`{"code":"malformed"}`))
		return
	}
	id, at := rand.Text(), time.Now().UTC() // 26 characters, as a payment's id
	fingerprint := sha256.Sum256(body)
	event := fmt.Appendf(nil, `{"id":%q,"type":"payment.created","version":1,"project":%q,"stream":%q,"data":%s}`, rand.Text(), project, id, body)

	// One round trip and, because nothing else is sent, one transaction.
	b := &pgx.Batch{}
	b.Queue("insert into payledger_bench.idempotency (project, key, fingerprint, payment) values ($1, $2, $3, $4)",
		project, key, fingerprint[:], id)
	b.Queue("insert into payledger_bench.payments values ($1, $2, 'created', $3::text::numeric, 'RUB', $4, $5, $6)",
		id, project, in.Amount, in.Description, string(in.Payload), at)
	b.Queue("insert into payledger_bench.outbox (payment, body) values ($1, $2)", id, string(event))
	if err := s.pool.SendBatch(r.Context(), b).Close(); err != nil {
		reply(w, http.StatusInternalServerError, fmt.Appendf(nil, `{"error":%q}`, err))
		return
	}
	w.Header().Set("Location", "/v1/payments/"+id)
	reply(w, http.StatusCreated, fmt.Appendf(nil,
		`{"id":%q,"status":"created","amount":%q,"currency":"RUB","description":%q,"payload":%s,"instructions":{"type":"link","url":"%s/p/AQAAAAFmWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWg"},"created_at":%q}`,
		id, in.Amount, *in.Description, in.Payload, s.base, at.Format("2006-01-02T15:04:05.000Z")))
}

func (s *server) get(w http.ResponseWriter, r *http.Request) {
	var id, status, amount, currency, payload string
	var description *string
	var at time.Time
	err := s.pool.QueryRow(r.Context(),
		"select id, status, amount::text, currency, description, payload, created_at from payledger_bench.payments where id = $1 and project = $2",
		mux.Vars(r)["id"], project).Scan(&id, &status, &amount, &currency, &description, &payload, &at)
	if err != nil {
		reply(w, http.StatusNotFound, []byte(`{"code":"payment_not_found"}`))
		return
	}
	reply(w, http.StatusOK, fmt.Appendf(nil, `{"id":%q,"status":%q,"amount":%q,"currency":%q,"description":%q,"payload":%s,"created_at":%q}`,
		id, status, amount, currency, *description, payload, at.UTC().Format("2006-01-02T15:04:05.000Z")))
}

func reply(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client went away
}
