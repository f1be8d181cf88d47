package process

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Term is the metrics of a part of the process's life, which go with it.
type Term struct {
	prometheus.Registerer
	mu  sync.Mutex
	all []prometheus.Collector
}

// Register implements prometheus.Registerer.
func (t *Term) Register(c prometheus.Collector) error {
	err := t.Registerer.Register(c)
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.all = append(t.all, c)
	}
	return err
}

// Unregister implements prometheus.Registerer.
func (t *Term) Unregister(c prometheus.Collector) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = slices.DeleteFunc(t.all, func(has prometheus.Collector) bool { return has == c })
	return t.Registerer.Unregister(c)
}

// MustRegister implements prometheus.Registerer.
func (t *Term) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := t.Register(c); err != nil {
			panic(err)
		}
	}
}

// End removes the metrics.
func (t *Term) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.all {
		t.Registerer.Unregister(c)
	}
	t.all = nil
}
