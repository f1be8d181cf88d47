package connector_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"payledger/domain"
	"payledger/notifier/connector"
)

// named is a connector that is told apart by its name and never called.
type named struct {
	connector.Connector
	name string
}

func routes(table domain.RoutingTable, connectors ...string) connector.Routes {
	r := connector.Routes{Table: table, Connectors: make(map[string]connector.Opened)}
	for _, name := range connectors {
		r.Connectors[name] = connector.Opened{Type: "nats", Connector: named{name: name}}
	}
	return r
}

func TestSetReplacesRulesAndConnectorsTogether(t *testing.T) {
	t.Parallel()
	s := connector.NewSet(routes(domain.RoutingTable{{Route: "a"}}, "a"))
	for _, gone := range []string{"", "b", "sandbox"} {
		if _, ok := s.Connector(gone); ok {
			t.Errorf("there is a connector of the route %q", gone)
		}
	}
	if c, ok := s.Connector("a"); !ok || c.(named).name != "a" {
		t.Error("the route a has not its connector")
	}

	next := routes(domain.RoutingTable{{Route: "b"}}, "b")
	next.Connectors["sandbox"] = connector.Opened{Type: "sandbox"}
	if retired, err := s.Replace(next); err != nil || !slices.Equal(retired, []string{"a"}) {
		t.Errorf("%q are retired, %v", retired, err)
	}
	if len(next.Connectors) != 2 {
		t.Error("the caller's routes were changed")
	}
	now := s.Routes()
	if s.Table()[0].Route != "b" || now.Table[0].Route != "b" || !now.Connectors["a"].Retired || now.Connectors["b"].Retired {
		t.Errorf("the routes are %+v", now)
	}
	if _, ok := s.Connector("a"); !ok {
		t.Error("the retired route has lost its connector")
	}
	if _, ok := s.Connector("sandbox"); ok {
		t.Error("the sandbox has a connector")
	}

	// A retired route stays so until the file names it again.
	if retired, err := s.Replace(connector.Routes{}); err != nil || !slices.Equal(retired, []string{"a", "b", "sandbox"}) {
		t.Errorf("%q are retired, %v", retired, err)
	}
	if _, err := s.Replace(routes(nil, "a")); err != nil || s.Routes().Connectors["a"].Retired {
		t.Errorf("a route that is back is retired, %v", err)
	}
}

// What was begun at a provider cannot be asked for at another, not even after the
// route was gone for a while.
func TestRouteKeepsItsType(t *testing.T) {
	t.Parallel()
	s := connector.NewSet(routes(domain.RoutingTable{{Route: "a"}}, "a"))
	if _, err := s.Replace(connector.Routes{}); err != nil {
		t.Fatal(err)
	}
	other := routes(domain.RoutingTable{{Route: "a"}}, "a")
	other.Connectors["a"] = connector.Opened{Type: "stripe", Connector: named{name: "other"}}
	var changed *connector.TypeChangedError
	if _, err := s.Replace(other); !errors.As(err, &changed) || changed.Route != "a" {
		t.Errorf("%v", err)
	}
	if c, _ := s.Connector("a"); c.(named).name != "a" || len(s.Table()) != 0 {
		t.Error("something was replaced")
	}
}

func TestSetIsReadWhileItIsReplaced(t *testing.T) {
	t.Parallel()
	s := connector.NewSet(routes(domain.RoutingTable{{Route: "a"}}, "a"))
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 1000 {
				now := s.Routes()
				if route := now.Table[0].Route; now.Connectors[route].Connector == nil || now.Connectors[route].Retired {
					t.Errorf("the rules name %q, which has no connector", route)
					return
				}
			}
		})
	}
	for i := range 100 {
		name := []string{"b", "a"}[i%2]
		if _, err := s.Replace(routes(domain.RoutingTable{{Route: name}}, name)); err != nil {
			t.Error(err)
		}
	}
	readers.Wait()
}
