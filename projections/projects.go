package projections

import (
	"context"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"payledger/domain"
)

// projectsView holds every project under its id, in memory as well as in the
// file: each request is authenticated by it.
type projectsView struct {
	table[*domain.Project]
	live map[string]*domain.Project // guarded by Engine.mu; written by the fold alone
}

func newProjectsView() *projectsView {
	return &projectsView{
		table: newTable("projects", appendJSON[domain.Project], parseJSON[domain.Project]),
		live:  make(map[string]*domain.Project),
	}
}

func (*projectsView) version() int { return 1 }

func (v *projectsView) fold(c *change) {
	if c.is == nil {
		return
	}
	if c.was == nil {
		v.insert(c.is.ID, c.is)
	} else {
		v.put(c.is.ID, c.is)
	}
	v.live[c.is.ID] = c.is
}

// load reads the projects of an opened file.
func (v *projectsView) load(tx *bolt.Tx) error {
	return tx.Bucket([]byte(v.name)).ForEach(func(key, raw []byte) error {
		p, err := v.open(key, raw)
		if err != nil {
			return err
		}
		v.live[p.ID] = p
		return nil
	})
}

// Project finds a project. It is answered from memory. Its slices must not be
// modified.
func (e *Engine) Project(ctx context.Context, id string) (domain.Project, bool, error) {
	if err := e.fresh(ctx); err != nil {
		return domain.Project{}, false, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	p, ok := e.projects.live[id]
	if !ok {
		return domain.Project{}, false, nil
	}
	return *p, true, nil
}

// Projects lists every project by id. Their slices must not be modified.
func (e *Engine) Projects(ctx context.Context) ([]domain.Project, error) {
	if err := e.fresh(ctx); err != nil {
		return nil, err
	}
	e.mu.RLock()
	all := make([]domain.Project, 0, len(e.projects.live))
	for _, p := range e.projects.live {
		all = append(all, *p)
	}
	e.mu.RUnlock()
	slices.SortFunc(all, func(a, b domain.Project) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}
