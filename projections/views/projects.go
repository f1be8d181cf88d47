package views

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"

	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/projections/table"
)

// projectsView holds every project under its id, in memory as well as in the
// file: every request is authenticated with it.
type projectsView struct {
	*table.Table[*projects.Project]
	live liveProjects
}

// liveProjects are the projects in memory, which requests read without a lock. Only the fold writes
// them.
type liveProjects struct{ byID sync.Map } // of string to *projects.Project, never changed

func (l *liveProjects) at(id string) (*projects.Project, bool) {
	p, ok := l.byID.Load(id)
	if !ok {
		return nil, false
	}
	return p.(*projects.Project), true
}

func (l *liveProjects) set(p *projects.Project) { l.byID.Store(p.ID, p) }

func newProjectsView(db *table.DB) *projectsView {
	return &projectsView{Table: table.OfStructs[projects.Project](db, "projects")}
}

func (v *projectsView) fold(c *change) {
	p := c.projectAfter
	switch {
	case p == nil:
		return
	case c.projectBefore == nil:
		v.Insert(p.ID, p)
	default:
		v.Replace(p.ID, p)
	}
	v.live.set(p)
}

// load reads the projects of an opened file.
func (v *projectsView) load(ctx context.Context, _ eventstore.Position) error {
	return v.Each(ctx, table.Range{}, math.MaxInt, func(_ string, p *projects.Project) error {
		v.live.set(p)
		return nil
	})
}

// Project finds a project. It is answered from memory. Its slices must not be
// modified.
func (v *Views) Project(ctx context.Context, id string) (projects.Project, bool, error) {
	if _, err := v.log.Fresh(ctx, eventstore.Filter{ID: id}); err != nil {
		return projects.Project{}, false, err
	}
	p, ok := v.projects.live.at(id)
	if !ok {
		return projects.Project{}, false, nil
	}
	return *p, true, nil
}

// Projects lists every project by id. Their slices must not be modified.
func (v *Views) Projects(ctx context.Context) ([]projects.Project, error) {
	if err := v.fresh(ctx); err != nil {
		return nil, err
	}
	all := []projects.Project{}
	v.projects.live.byID.Range(func(_, p any) bool {
		all = append(all, *p.(*projects.Project))
		return true
	})
	slices.SortFunc(all, func(a, b projects.Project) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}
