package bench

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// postgresName is the PostgreSQL baseline's in reports.
const postgresName = "PostgreSQL"

// PostgresProgram is the command that runs the PostgreSQL baseline. It is a
// module of its own, in the folder postgres, so that the ledger depends on no
// database driver.
const PostgresProgram = "payledger-bench-postgres"

// FindPostgres looks for the PostgreSQL baseline beside this program, then on
// the PATH.
func FindPostgres(program string) (string, error) {
	beside := filepath.Join(filepath.Dir(program), PostgresProgram)
	if found, err := exec.LookPath(beside); err == nil {
		return found, nil
	}
	found, err := exec.LookPath(PostgresProgram)
	if err != nil {
		return "", fmt.Errorf("the PostgreSQL baseline is a program of its own and is not here: make it with "+
			"\"go build -C cmd/payledger-bench/postgres -o %s .\"", beside)
	}
	return found, nil
}

// postgres starts the PostgreSQL baseline, which speaks as the others do.
func (b *bench) postgres(ctx context.Context) (*target, error) {
	program, err := FindPostgres(b.Self)
	if err != nil {
		return nil, err
	}
	t, err := launch(ctx, postgresName, filepath.Join(b.dir, "postgres.log"), []string{"BENCH_POSTGRES_URL=" + b.Postgres}, program)
	if err != nil {
		return nil, err
	}
	t.baseline = true
	b.running = append(b.running, t)
	return t, nil
}
