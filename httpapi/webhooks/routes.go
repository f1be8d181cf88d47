package webhooks

import (
	"context"
	"net/http"
	"net/url"

	"payledger/domain/projects"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// Routes are the rows of endpoints and deliveries under the path of a project's things, for its keys or
// for the operator.
func (a *API) Routes(project string) []edge.Route {
	const write, read = projects.WebhooksWrite, projects.Read
	base := project + "/webhook-endpoints"
	one := base + "/{endpoint_id}"
	event := one + "/deliveries/{event_id}"
	return []edge.Route{
		{Method: "POST", Path: base, Operation: "createWebhookEndpoint", Scope: write, Body: true, Handle: a.createEndpoint},
		{Method: "GET", Path: base, Operation: "listWebhookEndpoints", Scope: read, Handle: list("", func(ctx context.Context, c merchant.Caller, _ string, values url.Values) (wire.Page[wire.Endpoint], error) {
			return a.Endpoints(ctx, c, values)
		})},
		{Method: "GET", Path: one, Operation: "getWebhookEndpoint", Scope: read, Handle: on(http.StatusOK, a.Endpoint)},
		{Method: "POST", Path: one, Operation: "changeWebhookEndpoint", Scope: write, Body: true, Handle: with(http.StatusOK, requestOf, a.Change)},
		{Method: "DELETE", Path: one, Operation: "deleteWebhookEndpoint", Scope: write, Handle: a.deleteEndpoint},
		{Method: "POST", Path: one + "/rotate-secret", Operation: "rotateWebhookSecret", Scope: write, Body: true, Optional: true, Handle: with(http.StatusOK, rotationOf, a.RotateSecret)},
		{Method: "POST", Path: one + "/enable", Operation: "enableWebhookEndpoint", Scope: write, Body: true, Optional: true, Handle: on(http.StatusOK, a.Enable)},
		{Method: "POST", Path: one + "/disable", Operation: "disableWebhookEndpoint", Scope: write, Body: true, Optional: true, Handle: on(http.StatusOK, a.Disable)},
		{Method: "POST", Path: one + "/test", Operation: "testWebhookEndpoint", Scope: write, Body: true, Optional: true, Handle: on(http.StatusAccepted, a.Test)},
		{Method: "POST", Path: one + "/recover", Operation: "recoverDeliveries", Scope: write, Body: true, Handle: with(http.StatusAccepted, sinceOf, a.Recover)},
		{Method: "GET", Path: one + "/deliveries", Operation: "listDeliveries", Scope: read, Handle: list("endpoint_id", a.Deliveries)},
		{Method: "GET", Path: event, Operation: "getDelivery", Scope: read, Handle: with(http.StatusOK, eventOf, a.Delivery)},
		{Method: "POST", Path: event + "/resend", Operation: "resendDelivery", Scope: write, Body: true, Optional: true, Handle: with(http.StatusAccepted, eventOf, a.Resend)},
		{Method: "GET", Path: project + "/payments/{id}/deliveries", Operation: "listPaymentDeliveries", Scope: read, Handle: list("id", a.PaymentDeliveries)},
	}
}

// on answers with what an operation on the endpoint in the path answers. A body,
// where the route takes one, must be an empty object.
func on[Out any](status int, do func(ctx context.Context, c merchant.Caller, endpoint string) (Out, error)) func(*edge.Exchange) error {
	return with(status, nothingOf, func(ctx context.Context, c merchant.Caller, endpoint string, _ struct{}) (Out, error) {
		return do(ctx, c, endpoint)
	})
}

// with is on for an operation that takes an input, which is read first.
func with[In, Out any](
	status int, read func(*edge.Exchange) (In, error),
	do func(ctx context.Context, c merchant.Caller, endpoint string, in In) (Out, error),
) func(*edge.Exchange) error {
	return func(x *edge.Exchange) error {
		in, err := read(x)
		if err != nil {
			return err
		}
		out, err := do(x.Context(), merchant.CallerOf(x), x.Vars["endpoint_id"], in)
		if err != nil {
			return err
		}
		return x.Reply(status, out)
	}
}

// list answers a page of what belongs to the endpoint or payment that a variable
// of the path names, or, with "", to the project.
func list[T any](
	variable string, page func(ctx context.Context, c merchant.Caller, of string, values url.Values) (wire.Page[T], error),
) func(*edge.Exchange) error {
	return func(x *edge.Exchange) error {
		values, err := x.Values()
		if err != nil {
			return err
		}
		p, err := page(x.Context(), merchant.CallerOf(x), x.Vars[variable], values)
		if err != nil {
			return err
		}
		return edge.ReplyPage(x, p)
	}
}

func (a *API) createEndpoint(x *edge.Exchange) error {
	req, err := requestOf(x)
	if err != nil {
		return err
	}
	made, err := a.Add(x.Context(), merchant.CallerOf(x), req)
	if err != nil {
		return err
	}
	x.Header().Set("Location", x.Outside(x.Request.URL.EscapedPath()+"/"+made.ID))
	return x.Reply(http.StatusCreated, made)
}

func (a *API) deleteEndpoint(x *edge.Exchange) error {
	if err := a.Remove(x.Context(), merchant.CallerOf(x), x.Vars["endpoint_id"]); err != nil {
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}
