package webhooks

import (
	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
)

// API does what merchants ask for about their webhook endpoints. An operation
// is a method that takes a context, the Caller and its input, and answers an
// output or an error, as those of merchant.API do. Safe for concurrent use.
type API struct {
	cfg merchant.Config
	m   *merchant.API // admits callers and finds their payments
}

// New returns the operations on webhook endpoints. The configuration is that
// of m, with its defaults filled in, and has Webhooks.
func New(c merchant.Config, m *merchant.API) *API { return &API{cfg: c, m: m} }

// Handlers answer requests by the operations of an API. The method of an
// operation has the name of its operationId in openapi.yaml.
type Handlers struct {
	api    *API
	caller func(*edge.Exchange) (merchant.Caller, error)
}

// Handlers answer the requests of keys.
func (a *API) Handlers() Handlers {
	return Handlers{a, func(x *edge.Exchange) (merchant.Caller, error) { return merchant.CallerOf(x), nil }}
}

// HandlersFor answer the operator's requests; project finds the project that
// a request is about.
func (a *API) HandlersFor(project func(*edge.Exchange) (domain.Project, error)) Handlers {
	return Handlers{a, func(x *edge.Exchange) (merchant.Caller, error) {
		p, err := project(x)
		return merchant.Operator(p), err
	}}
}
