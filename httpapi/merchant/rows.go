package merchant

import (
	"context"
	"net/url"
	"sync"

	"payledger/domain/projects"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// Rows is a list that was asked for, to be read as a page or as CSV.
type Rows[T any] struct {
	edge.List

	// next reads up to limit rows behind those that it has read. last is the place of the last of
	// them, "" when nothing follows.
	next func(ctx context.Context, limit int) (part []T, last string, err error)

	places  chan struct{} // of the project's lists
	columns []string      // of CSV
	cells   func(context.Context, []T) ([][]string, error)
	recheck func(context.Context) error // between the parts of a CSV
}

// read reads rows when one of the places is free.
func (r Rows[T]) read(ctx context.Context, limit int) (part []T, last string, err error) {
	select {
	case r.places <- struct{}{}:
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
	defer func() { <-r.places }()
	return r.next(ctx, limit)
}

// PageOf answers a page of a list.
func PageOf[T any](list func(Caller, url.Values) (Rows[T], error)) func(context.Context, Caller, url.Values) (wire.Page[T], error) {
	return func(ctx context.Context, c Caller, values url.Values) (page wire.Page[T], err error) {
		all, err := list(c, values)
		if err != nil {
			return page, err
		}
		part, last, err := all.read(ctx, all.Limit)
		if err != nil {
			return page, err
		}
		return edge.PageOf(all.List, part, last), nil
	}
}

// Table is the list as CSV: all of it, or as much as the request names.
func (r Rows[T]) Table() edge.Table {
	t := edge.Table{Columns: r.columns, Recheck: r.recheck}
	if r.Sized {
		t.Limit = r.Limit
	}
	t.Next = func(ctx context.Context, limit int) (lines [][]string, more bool, err error) {
		part, last, err := r.read(ctx, limit)
		if err == nil {
			lines, err = r.cells(ctx, part)
		}
		return lines, last != "", err
	}
	return t
}

// eachRow makes the cells of rows, one after the other.
func eachRow[T any](cells func(T) []string) func(context.Context, []T) ([][]string, error) {
	return func(_ context.Context, part []T) (lines [][]string, err error) {
		for _, row := range part {
			lines = append(lines, cells(row))
		}
		return lines, nil
	}
}

// list admits a caller and reads its request for a list, which has these filters.
func list[T any](a *API, c *Caller, values url.Values, operation string, filters ...string) (r Rows[T], err error) {
	if err = a.Admit(c, projects.Read, nil); err == nil {
		r.List, err = edge.ParseList(values, operation, c.Project.ID, filters...)
	}
	r.recheck = func(ctx context.Context) error { return a.recheck(ctx, *c) }
	r.places = a.lists.of(c.Project.ID)
	return r, err
}

// maxLists is how many lists of one project are read at once: one that matches few rows of many is
// read for as long as its request may take, and the others of the project wait behind it, not those
// of other projects.
const maxLists = 4

// places bound how often a project does something at once.
type places struct {
	number    int
	byProject sync.Map // channels, see of
}

// of has room for the number: sending takes a place, receiving gives it back.
func (p *places) of(project string) chan struct{} {
	of, _ := p.byProject.LoadOrStore(project, make(chan struct{}, p.number))
	return of.(chan struct{}) //nolint:forcetypeassert // nothing else is stored
}
