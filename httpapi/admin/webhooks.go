package admin

import (
	"strings"

	"payledger/httpapi/edge"
	"payledger/httpapi/webhooks"
)

// webhookRoutes are the rows of webhook endpoints for the operator: those of
// the API, of any project. An endpoint's secret is shown once, as there.
func (a *admin) webhookRoutes() []edge.Route {
	const project = "/admin/projects/{id}"
	h := webhooks.New(a.cfg.Config, a.api).HandlersFor(a.projectOf)
	table := append(h.Routes(project+"/webhook-endpoints"), edge.Route{
		Method: "GET", Path: project + "/payments/{payment_id}/deliveries", Operation: "listPaymentDeliveries",
		Handle: h.PaymentDeliveries("payment_id"),
	})
	for i := range table {
		row := &table[i]
		row.Scope = ""
		row.Operation = "admin" + strings.ToUpper(row.Operation[:1]) + row.Operation[1:]
	}
	return table
}
