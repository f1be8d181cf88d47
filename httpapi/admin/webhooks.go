package admin

import (
	"strings"

	"payledger/httpapi/edge"
	"payledger/httpapi/webhooks"
)

// webhookRoutes are the rows of webhook endpoints for the operator: those of
// the API, of any project. An endpoint's secret is shown once, as there.
func (a *admin) webhookRoutes() []edge.Route {
	table := webhooks.New(a.api).Routes("/admin/projects/{project}")
	for i := range table {
		row := &table[i]
		row.Operation = "admin" + strings.ToUpper(row.Operation[:1]) + row.Operation[1:]
	}
	return table
}
