package merchant

import "sync"

// openStreams counts the streams under way by project.
type openStreams struct {
	mu        sync.Mutex
	byProject map[string]int
}

// enter takes one of the project's places, of which there are most; leave
// gives it back.
func (o *openStreams) enter(project string, most int) (leave func(), ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byProject[project] >= most {
		return nil, false
	}
	o.byProject[project]++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.byProject[project]--; o.byProject[project] == 0 {
			delete(o.byProject, project)
		}
	}, true
}
