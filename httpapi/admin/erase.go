package admin

import (
	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
)

// eraseBefore answers POST /admin/projects/{project}/erase: it erases a page of the project's payments
// and says where the next one begins.
func (a *admin) eraseBefore(x *edge.Exchange) error {
	var req struct {
		Before domain.Instant `json:"before"`
		Reason string         `json:"reason"`
		Behind string         `json:"behind"`
	}
	if err := json.Unmarshal(x.Body, &req, json.RejectUnknownMembers(true)); err != nil || req.Before == 0 {
		return edge.BadParameter("before", "Send a time such as 2026-11-20T10:15:30Z.")
	}
	behind, ok := domain.ParseID(req.Behind)
	if !ok && req.Behind != "" {
		return edge.BadParameter("behind", "Send the next of the answer before.")
	}
	return x.Answer(a.api.EraseBefore(x.Context(), merchant.CallerOf(x), req.Before, req.Reason, behind))
}
