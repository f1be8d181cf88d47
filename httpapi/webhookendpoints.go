package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"payledger/domain"
)

// create answers POST …/webhook-endpoints.
func (h hooks) create(x *exchange, p domain.Project) error {
	wish, err := h.wishOf(x.body, true)
	if err != nil {
		return err
	}
	object, event := h.cfg.IDs.Pair()
	id := "we_" + object.String()
	version := h.cfg.Webhooks.KeyVersion()
	secret, err := h.cfg.Webhooks.Secret(id, domain.Secret{Generation: 1, KeyVersion: version})
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
	x.Header().Set("Location", x.r.URL.EscapedPath()+"/"+id)
	return x.reply(http.StatusCreated, v)
}

// list answers GET …/webhook-endpoints, newest first.
func (h hooks) list(x *exchange, p domain.Project) error {
	req, err := pageOf(x)
	if err != nil {
		return err
	}
	all := slices.Clone(p.Endpoints)
	slices.SortFunc(all, func(a, b domain.Endpoint) int { return strings.Compare(b.ID, a.ID) })
	if req.place != "" {
		all = slices.DeleteFunc(all, func(e domain.Endpoint) bool { return e.ID >= req.place })
	}
	last := ""
	if len(all) > req.limit {
		all = all[:req.limit]
		last = all[len(all)-1].ID
	}
	rows := make([]endpointView, 0, len(all))
	for _, e := range all {
		health, err := h.cfg.Webhooks.Health(x.ctx(), e.ID)
		if err != nil {
			return err
		}
		rows = append(rows, h.viewOf(e, health))
	}
	return x.replyPage(req, rows, last)
}

// get answers GET …/webhook-endpoints/{endpoint_id}.
func (h hooks) get(x *exchange, p domain.Project) error { return h.reply(x, p) }

// change answers POST …/webhook-endpoints/{endpoint_id}.
func (h hooks) change(x *exchange, p domain.Project) error {
	wish, err := h.wishOf(x.body, false)
	if err != nil {
		return err
	}
	wish.EndpointID = x.vars["endpoint_id"]
	if p, err = h.execute(x, p, wish.EndpointID, h.cfg.IDs.Next(), wish); err != nil {
		return err
	}
	return h.reply(x, p)
}

// remove answers DELETE …/webhook-endpoints/{endpoint_id}.
func (h hooks) remove(x *exchange, p domain.Project) error {
	cmd := domain.RemoveEndpoint{EndpointID: x.vars["endpoint_id"]}
	if _, err := h.execute(x, p, cmd.EndpointID, h.cfg.IDs.Next(), cmd); err != nil {
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// rotate answers POST …/rotate-secret.
func (h hooks) rotate(x *exchange, p domain.Project) error {
	overlap, err := overlapOf(x.body)
	if err != nil {
		return err
	}
	e, err := h.endpoint(x, p)
	if err != nil {
		return err
	}
	// Before the rotation: nothing may fail once there is a secret to tell.
	health, err := h.cfg.Webhooks.Health(x.ctx(), e.ID)
	if err != nil {
		return err
	}
	event := h.cfg.IDs.Next()
	p, err = h.execute(x, p, e.ID, event, domain.RotateSecret{
		At: domain.IDTime(event), EndpointID: e.ID, Overlap: overlap, KeyVersion: h.cfg.Webhooks.KeyVersion(),
	})
	if err != nil {
		return err
	}
	e, _ = p.Endpoint(e.ID)
	v := h.viewOf(e, health)
	if v.Secret, err = h.cfg.Webhooks.Secret(e.ID, e.Secret); err != nil {
		return err
	}
	return x.reply(http.StatusOK, v)
}

// enable answers POST …/enable.
func (h hooks) enable(x *exchange, p domain.Project) error {
	return h.toggle(x, p, func(id string, _ domain.Instant) domain.ProjectCommand {
		return domain.EnableEndpoint{EndpointID: id}
	})
}

// disable answers POST …/disable.
func (h hooks) disable(x *exchange, p domain.Project) error {
	return h.toggle(x, p, func(id string, at domain.Instant) domain.ProjectCommand {
		return domain.DisableEndpoint{At: at, EndpointID: id, Reason: domain.DisabledByRequest}
	})
}

func (h hooks) toggle(x *exchange, p domain.Project, command func(id string, at domain.Instant) domain.ProjectCommand) error {
	if err := noMembers(x.body); err != nil {
		return err
	}
	id, event := x.vars["endpoint_id"], h.cfg.IDs.Next()
	p, err := h.execute(x, p, id, event, command(id, domain.IDTime(event)))
	if err != nil {
		return err
	}
	return h.reply(x, p)
}

// wishOf reads the members of an endpoint that its owner can set. What is null
// counts as absent.
func (h hooks) wishOf(body []byte, isNew bool) (wish domain.EditEndpoint, err error) {
	members, err := decodeObject(body)
	if err != nil {
		return wish, err
	}
	var fields domain.FieldErrors
	refuse := func(f *domain.FieldError) { fields = append(fields, f) }
	for _, m := range members {
		known := m.name == "url" || m.name == "kinds" || m.name == "description"
		ok := true
		switch {
		case !known:
			refuse(&domain.FieldError{Field: m.name, Code: domain.UnknownField})
		case m.value.Kind() == 'n':
		case m.name == "kinds":
			var all []string
			if all, ok = textsOf(m.value); ok && len(all) == 0 {
				refuse(&domain.FieldError{Field: m.name, Code: domain.InvalidValue, Allowed: texts(domain.Kinds())})
			}
			for _, k := range all {
				wish.Kinds = append(wish.Kinds, domain.Kind(k))
			}
		default:
			var s string
			if s, ok = text(m.value); !ok {
				break
			}
			if m.name == "url" {
				wish.URL = &s
			} else {
				wish.Description = &s
			}
		}
		if !ok {
			refuse(&domain.FieldError{Field: m.name, Code: domain.WrongType})
		}
	}
	more := wish.Validate()
	switch {
	case wish.URL == nil && isNew:
		more = append(more, &domain.FieldError{Field: "url", Code: domain.Required})
	case wish.URL != nil && !slices.ContainsFunc(more, func(f *domain.FieldError) bool { return f.Field == "url" }):
		if why := h.cfg.Webhooks.CheckTarget(*wish.URL); why != nil {
			more = append(more, &domain.FieldError{Field: "url", Code: domain.TargetNotAllowed, Why: why.Error()})
		}
	}
	if fields = alongside(fields, more); len(fields) > 0 {
		return wish, inOrder(fields)
	}
	return wish, nil
}
