package projections

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"

	bolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

// projectsView holds every project under its id, in memory as well as in the
// file: each request is authenticated by it.
type projectsView struct {
	table[*domain.Project]
	live liveProjects
}

// liveProjects are the projects in memory. A request waits for no lock to be
// told its own. They are written by the fold alone.
type liveProjects struct{ byID sync.Map } // of string to *domain.Project, never changed

func (l *liveProjects) at(id string) (*domain.Project, bool) {
	p, ok := l.byID.Load(id)
	if !ok {
		return nil, false
	}
	return p.(*domain.Project), true
}

func (l *liveProjects) set(p *domain.Project) { l.byID.Store(p.ID, p) }

func (l *liveProjects) all() iter.Seq[*domain.Project] {
	return func(yield func(*domain.Project) bool) {
		l.byID.Range(func(_, p any) bool { return yield(p.(*domain.Project)) })
	}
}

func newProjectsView() *projectsView {
	return &projectsView{table: newTable("projects", appendJSON[domain.Project], parseJSON[domain.Project])}
}

func (*projectsView) version() int { return 3 }

func (v *projectsView) fold(c *change) {
	if c.is == nil {
		return
	}
	if c.was == nil {
		v.insert(c.is.ID, c.is)
	} else {
		v.put(c.is.ID, c.is)
	}
	v.live.set(c.is)
}

// load reads the projects of an opened file.
func (v *projectsView) load(tx *bolt.Tx) error {
	return tx.Bucket([]byte(v.name)).ForEach(func(key, raw []byte) error {
		p, err := v.open(key, raw)
		if err != nil {
			return err
		}
		v.live.set(p)
		return nil
	})
}

// Project finds a project. It is answered from memory. Its slices must not be
// modified.
func (e *Engine) Project(ctx context.Context, id string) (domain.Project, bool, error) {
	if err := e.freshOf(ctx, eventstore.Filter{ID: id}); err != nil {
		return domain.Project{}, false, err
	}
	p, ok := e.projects.live.at(id)
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
	all := []domain.Project{}
	for p := range e.projects.live.all() {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b domain.Project) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}
