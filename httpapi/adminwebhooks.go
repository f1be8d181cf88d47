package httpapi

import "strings"

// webhookRoutes are the rows of webhook endpoints for the operator: those of
// the API, of any project. An endpoint's secret is told here as it is there,
// once.
func (a *admin) webhookRoutes() []route {
	const project = "/admin/projects/{id}"
	h := hooks{cfg: a.cfg.merchantConfig, project: a.project}
	table := append(h.routes(project+"/webhook-endpoints"), route{
		method: "GET", path: project + "/payments/{payment_id}/deliveries", operation: "listPaymentDeliveries",
		handle: h.on(h.ofPayment("payment_id")),
	})
	for i := range table {
		row := &table[i]
		row.scope = ""
		row.operation = "admin" + strings.ToUpper(row.operation[:1]) + row.operation[1:]
	}
	return table
}
