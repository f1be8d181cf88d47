package merchant

import (
	"net/http"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// create answers POST …/webhook-endpoints.
func (h Hooks) create(x *edge.Exchange, p domain.Project) error {
	wish, err := h.wishOf(x.Body, true)
	if err != nil {
		return err
	}
	object, event := h.Cfg.IDs.Pair()
	id := "we_" + object.String()
	version := h.Cfg.Webhooks.KeyVersion()
	secret, err := h.Cfg.Webhooks.Secret(id, domain.Secret{Generation: 1, KeyVersion: version})
	if err != nil {
		return err
	}
	p, err = h.execute(x, p, id, event, domain.AddEndpoint{
		At: domain.IDTime(event), EndpointID: id, URL: *wish.URL, Kinds: wish.Kinds, Description: wish.Description, KeyVersion: version,
	})
	if err != nil {
		return err
	}
	made, _ := p.Endpoint(id)
	v := h.viewOf(made, domain.EndpointHealth{})
	v.Secret = secret
	x.Header().Set("Location", x.Request.URL.EscapedPath()+"/"+id)
	return x.Reply(http.StatusCreated, v)
}

// list answers GET …/webhook-endpoints, newest first.
func (h Hooks) list(x *edge.Exchange, p domain.Project) error {
	req, err := edge.PageOf(x)
	if err != nil {
		return err
	}
	all := slices.Clone(p.Endpoints)
	slices.SortFunc(all, func(a, b domain.Endpoint) int { return strings.Compare(b.ID, a.ID) })
	if req.Place != "" {
		all = slices.DeleteFunc(all, func(e domain.Endpoint) bool { return e.ID >= req.Place })
	}
	last := ""
	if len(all) > req.Limit {
		all = all[:req.Limit]
		last = all[len(all)-1].ID
	}
	rows := make([]wire.Endpoint, 0, len(all))
	for _, e := range all {
		health, err := h.Cfg.Webhooks.Health(x.Context(), e.ID)
		if err != nil {
			return err
		}
		rows = append(rows, h.viewOf(e, health))
	}
	return x.ReplyPage(req, rows, last)
}

// get answers GET …/webhook-endpoints/{endpoint_id}.
func (h Hooks) get(x *edge.Exchange, p domain.Project) error { return h.reply(x, p) }

// change answers POST …/webhook-endpoints/{endpoint_id}.
func (h Hooks) change(x *edge.Exchange, p domain.Project) error {
	wish, err := h.wishOf(x.Body, false)
	if err != nil {
		return err
	}
	wish.EndpointID = x.Vars["endpoint_id"]
	if p, err = h.execute(x, p, wish.EndpointID, h.Cfg.IDs.Next(), wish); err != nil {
		return err
	}
	return h.reply(x, p)
}

// remove answers DELETE …/webhook-endpoints/{endpoint_id}.
func (h Hooks) remove(x *edge.Exchange, p domain.Project) error {
	cmd := domain.RemoveEndpoint{EndpointID: x.Vars["endpoint_id"]}
	if _, err := h.execute(x, p, cmd.EndpointID, h.Cfg.IDs.Next(), cmd); err != nil {
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// rotate answers POST …/rotate-secret.
func (h Hooks) rotate(x *edge.Exchange, p domain.Project) error {
	overlap, err := overlapOf(x.Body)
	if err != nil {
		return err
	}
	e, err := h.endpoint(x, p)
	if err != nil {
		return err
	}
	// Before the rotation: nothing may fail once there is a secret to tell.
	health, err := h.Cfg.Webhooks.Health(x.Context(), e.ID)
	if err != nil {
		return err
	}
	event := h.Cfg.IDs.Next()
	p, err = h.execute(x, p, e.ID, event, domain.RotateSecret{
		At: domain.IDTime(event), EndpointID: e.ID, Overlap: overlap, KeyVersion: h.Cfg.Webhooks.KeyVersion(),
	})
	if err != nil {
		return err
	}
	e, _ = p.Endpoint(e.ID)
	v := h.viewOf(e, health)
	if v.Secret, err = h.Cfg.Webhooks.Secret(e.ID, e.Secret); err != nil {
		return err
	}
	return x.Reply(http.StatusOK, v)
}

// enable answers POST …/enable.
func (h Hooks) enable(x *edge.Exchange, p domain.Project) error {
	return h.toggle(x, p, func(id string, _ domain.Instant) domain.ProjectCommand {
		return domain.EnableEndpoint{EndpointID: id}
	})
}

// disable answers POST …/disable.
func (h Hooks) disable(x *edge.Exchange, p domain.Project) error {
	return h.toggle(x, p, func(id string, at domain.Instant) domain.ProjectCommand {
		return domain.DisableEndpoint{At: at, EndpointID: id, Reason: domain.DisabledByRequest}
	})
}

func (h Hooks) toggle(x *edge.Exchange, p domain.Project, command func(id string, at domain.Instant) domain.ProjectCommand) error {
	if err := edge.NoMembers(x.Body); err != nil {
		return err
	}
	id, event := x.Vars["endpoint_id"], h.Cfg.IDs.Next()
	p, err := h.execute(x, p, id, event, command(id, domain.IDTime(event)))
	if err != nil {
		return err
	}
	return h.reply(x, p)
}

// wishOf reads the members of an endpoint that its owner can set. What is null
// counts as absent.
func (h Hooks) wishOf(body []byte, isNew bool) (wish domain.EditEndpoint, err error) {
	members, err := edge.DecodeObject(body)
	if err != nil {
		return wish, err
	}
	var fields domain.FieldErrors
	refuse := func(f *domain.FieldError) { fields = append(fields, f) }
	for _, m := range members {
		known := m.Name == "url" || m.Name == "kinds" || m.Name == "description"
		ok := true
		switch {
		case !known:
			refuse(&domain.FieldError{Field: m.Name, Code: domain.UnknownField})
		case m.Value.Kind() == 'n':
		case m.Name == "kinds":
			var all []string
			if all, ok = edge.TextsOf(m.Value); ok && len(all) == 0 {
				refuse(&domain.FieldError{Field: m.Name, Code: domain.InvalidValue, Allowed: edge.Texts(domain.Kinds())})
			}
			for _, k := range all {
				wish.Kinds = append(wish.Kinds, domain.Kind(k))
			}
		default:
			var s string
			if s, ok = edge.Text(m.Value); !ok {
				break
			}
			if m.Name == "url" {
				wish.URL = &s
			} else {
				wish.Description = &s
			}
		}
		if !ok {
			refuse(&domain.FieldError{Field: m.Name, Code: domain.WrongType})
		}
	}
	more := wish.Validate()
	switch {
	case wish.URL == nil && isNew:
		more = append(more, &domain.FieldError{Field: "url", Code: domain.Required})
	case wish.URL != nil && !slices.ContainsFunc(more, func(f *domain.FieldError) bool { return f.Field == "url" }):
		if why := h.Cfg.Webhooks.CheckTarget(*wish.URL); why != nil {
			more = append(more, &domain.FieldError{Field: "url", Code: domain.TargetNotAllowed, Why: why.Error()})
		}
	}
	if fields = edge.Alongside(fields, more); len(fields) > 0 {
		return wish, edge.InOrder(fields)
	}
	return wish, nil
}
