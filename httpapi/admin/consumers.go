package admin

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// Consumers are those who read events from the embedded NATS server with
// credentials of their own. Names are checked before, projects exist, positions are
// in the log. Refusals are *domain.Refusal, also those of record.
type Consumers interface {
	Create(ctx context.Context, name, project string, record func(installation.Command) error) (installation.NewNATSConsumer, error)
	List(ctx context.Context) []installation.NATSConsumer
	Reset(ctx context.Context, name string, to eventstore.Position, record func(installation.Command) error) error
	Remove(ctx context.Context, name string, record func(installation.Command) error) error
}

func (a *admin) consumerRoutes() []edge.Route {
	const all, one = "/admin/nats/consumers", "/admin/nats/consumers/{name}"
	return []edge.Route{
		{Method: "POST", Path: all, Operation: "adminCreateConsumer", Body: true, Handle: a.createConsumer},
		{Method: "GET", Path: all, Operation: "adminListConsumers", Handle: a.listConsumers},
		{Method: "POST", Path: one + "/reset", Operation: "adminResetConsumer", Body: true, Handle: a.resetConsumer},
		{Method: "DELETE", Path: one, Operation: "adminRemoveConsumer", Handle: a.removeConsumer},
	}
}

func (a *admin) createConsumer(x *edge.Exchange) error {
	var req struct {
		Name    string `json:"name"`
		Project string `json:"project_id"`
	}
	if err := json.Unmarshal(x.Body, &req, json.RejectUnknownMembers(true)); err != nil {
		return edge.BadParameter("", "Send {\"name\"} and, for one project alone, \"project_id\".")
	}
	if !installation.ValidConsumerName(req.Name) {
		return edge.BadParameter("name", "A consumer's name is 1 to 32 of a-z, 0-9, - and _, and begins with a letter.")
	}
	if req.Project != "" {
		if _, err := a.project(x, req.Project); err != nil {
			return err
		}
	}
	made, err := a.cfg.Consumers.Create(x.Context(), req.Name, req.Project, a.recorded(x))
	if err != nil {
		return away(err, "Nothing was made.")
	}
	return x.Reply(http.StatusCreated, made)
}

func (a *admin) listConsumers(x *edge.Exchange) error {
	return x.Reply(http.StatusOK, wire.Page[installation.NATSConsumer]{Data: a.cfg.Consumers.List(x.Context())})
}

func (a *admin) resetConsumer(x *edge.Exchange) error {
	var req struct {
		Position *uint64 `json:"position"`
	}
	if err := json.Unmarshal(x.Body, &req, json.RejectUnknownMembers(true)); err != nil || req.Position == nil {
		return edge.BadParameter("position", "Send the position after which the consumer continues, 0 for all.")
	}
	last, err := a.cfg.Ledger.Store.Last(x.Context())
	if err != nil {
		return err
	}
	to := eventstore.Position(*req.Position)
	if to > last {
		return edge.BadParameter("position", "The log ends at position "+strconv.FormatUint(uint64(last), 10)+". Send that or an earlier one.")
	}
	name := x.Vars["name"]
	if err := a.cfg.Consumers.Reset(x.Context(), name, to, a.recorded(x)); err != nil {
		return away(err, "Send it again.")
	}
	return x.Reply(http.StatusOK, map[string]any{"name": name, "position": to})
}

func (a *admin) removeConsumer(x *edge.Exchange) error {
	if err := a.cfg.Consumers.Remove(x.Context(), x.Vars["name"], a.recorded(x)); err != nil {
		return away(err, "It is removed if the list does not show it; if programs stay connected with it then, start the server again.")
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// away shows an error of NATS or of the log that is no refusal, because only the operator reads it. what
// says what it has led to.
func away(err error, what string) error {
	if errors.As(err, new(*domain.Refusal)) || errors.As(err, new(wire.Problem)) || errors.Is(err, eventstore.ErrUnconfirmed) {
		return err
	}
	return wire.Problem{Code: domain.Unavailable, Detail: "The NATS server or the disk cannot do this now. " + what + " " + err.Error()}
}
