package bench

import (
	"context"
	"fmt"
	"slices"
)

func besidePost() []string { return []string{bare, ceiling, ceiling2} }

func stepsPost(b *bench) int {
	n := 1 + len(besidePost())
	if b.Postgres != "" {
		n++
	}
	return len(b.Connections)*b.Rounds*n + 1
}

// post measures creation in closed loops.
func (b *bench) post(ctx context.Context) error {
	service, err := b.service(ctx, "post", b.SyncDelay)
	if err != nil {
		return err
	}
	targets, err := b.baselines(ctx, besidePost()...)
	if err != nil {
		return err
	}
	targets = slices.Insert(targets, 0, service)
	if b.Postgres != "" {
		t, err := b.postgres(ctx)
		if err != nil {
			return err
		}
		targets = append(targets, t)
	}
	for _, n := range b.Connections {
		what := "POST, " + closed(n)
		m, err := b.measure(ctx, what, load{Connections: n}, creators(targets...))
		if err != nil {
			return err
		}
		b.postRows(n, m)
	}
	return b.checkAcks(ctx, service)
}

// postRows makes the rows of one number of connections. The musts are held
// against the ceiling, the aims against the second one.
func (b *bench) postRows(n int, m []measured) {
	what := "POST, " + closed(n)
	own, first, second := m[0], m[2], m[3]
	must, aim := 0.40, 0.85
	if n == 1 {
		must, aim = 0.50, 0.63
	}
	row := func(r Row) {
		r.Suite = "post"
		b.row(r)
	}
	row(Row{
		Name: what, Unit: "payments/s", Figure: own.rate.median(), Note: latencyNote(own),
		Must: own.rate.atLeast(must, ceiling, first.rate), Aim: own.rate.atLeast(aim, ceiling2, second.rate),
		Beside: []Comparison{own.rate.beside(bare, m[1].rate)},
	})
	if len(m) > 4 {
		pg := m[4].rate
		beside := Row{Name: what + ": beside PostgreSQL", Unit: "payments/s", Figure: own.rate.median()}
		if n < 64 {
			beside.Beside = []Comparison{own.rate.beside(postgresName, pg)}
		} else {
			beside.Must, beside.Aim = own.rate.atLeast(2.5, postgresName, pg), own.rate.atLeast(4, postgresName, pg)
		}
		row(beside)
	}
	row(Row{
		Name: what + ": until awaiting_payment", Unit: "payments/s", Figure: own.sustained.median(),
		Must: own.sustained.atLeast(0.95, "answered", own.rate), Aim: own.sustained.atLeast(0.98, "answered", own.rate),
		Note: "over the time until the last payment had a route",
	})
	row(Row{
		Name: what + ": each server core", Unit: "payments/s", Figure: own.perCore.median(),
		Must: own.perCore.atLeast(0.35, ceiling, first.perCore), Aim: own.perCore.atLeast(0.80, ceiling2, second.perCore),
		Beside: []Comparison{own.perCore.beside(bare, m[1].perCore)},
		Note:   "over the CPU time until the last payment had a route",
	})
}

// latencyNote sums up the latencies of the rounds.
func latencyNote(m measured) string {
	var p50, p99, p999 series
	for _, o := range m.outcomes {
		p50, p99, p999 = append(p50, o.Latency.P50), append(p99, o.Latency.P99), append(p999, o.Latency.P999)
	}
	return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms", p50.median(), p99.median(), p999.median())
}
