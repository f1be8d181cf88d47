package baseline

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	schema = `
drop schema if exists payledger_bench cascade;
create schema payledger_bench;
create table payledger_bench.payments (
	id text primary key, project text not null, status text not null, amount numeric(11,2) not null, currency text not null,
	description text, payload text not null, created_at timestamptz not null default now());
create table payledger_bench.idempotency (
	project text not null, key text not null, fingerprint bytea not null, payment text not null, primary key (project, key));
create table payledger_bench.outbox (position bigserial primary key, payment text not null, body text not null)`

	// poolSize is the connections to the database: more of them made it slower on
	// two cores.
	poolSize = 32
)

// inPostgres stores payments as most services do: with pgx, in a table of payments, one of
// idempotency keys and an outbox.
func inPostgres(ctx context.Context, url string) (keeper, error) {
	if url == "" {
		return keeper{}, errors.New("--postgres is empty: want the URL of a database in which a schema may be made")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return keeper{}, err
	}
	config.MaxConns = poolSize
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return keeper{}, err
	}
	if _, err := pool.Exec(ctx, schema); err != nil {
		pool.Close()
		return keeper{}, err
	}
	clean := context.WithoutCancel(ctx) // it outlives the last request
	return keeper{
		keep: func(e *entry) error {
			var in struct {
				Amount      string         `json:"amount"`
				Description *string        `json:"description"`
				Payload     jsontext.Value `json:"payload"`
			}
			if err := json.Unmarshal(e.request, &in); err != nil {
				return err
			}
			id, fingerprint := string(e.id[:]), sha256.Sum256(e.request)
			// One round trip and, because nothing else is sent, one transaction.
			b := &pgx.Batch{}
			b.Queue("insert into payledger_bench.idempotency (project, key, fingerprint, payment) values ($1, $2, $3, $4)",
				project, e.key, fingerprint[:], id)
			b.Queue("insert into payledger_bench.payments values ($1, $2, 'created', $3::text::numeric, 'RUB', $4, $5)",
				id, project, in.Amount, in.Description, string(in.Payload))
			b.Queue("insert into payledger_bench.outbox (payment, body) values ($1, $2)", id, string(e.event))
			return pool.SendBatch(ctx, b).Close()
		},
		get: func(id string) []byte {
			e := &entry{}
			copy(e.id[:], id)
			var found bool
			err := pool.QueryRow(ctx, "select true from payledger_bench.payments where id = $1 and project = $2", id, project).Scan(&found)
			if err != nil {
				return nil
			}
			return shown(e)
		},
		backlog: idle,
		close: func() error {
			defer pool.Close()
			_, err := pool.Exec(clean, "drop schema payledger_bench cascade")
			return err
		},
	}, nil
}
