package routesfile

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/notifier/connector"
)

// reading is a routes file being read.
type reading struct {
	source  Source
	env     connector.Env
	content []byte

	table      domain.RoutingTable
	named      []value                     // the route of each rule, with its location
	connectors map[string]connector.Opened // by route
	declared   map[string]value            // the connectors of the file

	problems, warnings []Problem
}

// refuse notes what is wrong with a value.
func (r *reading) refuse(v value, format string, args ...any) {
	r.problems = append(r.problems, r.problem(v.at, v.pointer, fmt.Sprintf(format, args...)))
}

func (r *reading) warn(v value, format string, args ...any) {
	r.warnings = append(r.warnings, r.problem(v.at, v.pointer, fmt.Sprintf(format, args...)))
}

func (r *reading) file(root value) {
	switch root.raw.Kind() {
	case '[':
		r.rules(root)
		for _, rule := range r.table {
			if rule.Route != domain.SandboxRoute && domain.ValidRoute(rule.Route) {
				r.open(rule.Route, natsType, root, []byte("{}"))
			}
		}
	case '{':
		ruled := false
		for _, m := range root.open() {
			switch m.name {
			case "rules":
				ruled = true
				r.rules(m.value)
			case "connectors":
				r.declare(m.value)
			default:
				r.refuse(m.value, `unknown member: a routes file has "rules" and "connectors"`)
			}
		}
		if !ruled {
			r.refuse(root.find("rules"), "the rules are missing: want an array of them")
		}
	default:
		r.refuse(root, `want an object with "rules" and "connectors", or an array of rules`)
	}
	r.match()
}

// rules reads the array of rules.
func (r *reading) rules(v value) {
	if v.raw.Kind() != '[' {
		r.refuse(v, "want an array of rules")
		return
	}
	for _, element := range v.open() {
		r.rule(element.value)
	}
}

// rule reads a rule. Null means that a member is left out.
func (r *reading) rule(v value) {
	if v.raw.Kind() != '{' {
		r.refuse(v, `want a rule such as {"route":"cards","currency":"RUB","min":"1.00","max":"50000.00","weight":1}`)
		return
	}
	rule := domain.Rule{Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 1}
	members := map[string]struct {
		into any
		want string
	}{
		"route":    {&rule.Route, "a string"},
		"currency": {&rule.Currency, "a string"},
		"min":      {&rule.Min, `an amount such as "1.00"`},
		"max":      {&rule.Max, `an amount such as "50000.00"`},
		"weight":   {&rule.Weight, "a whole number, 0 to 4294967295"},
	}
	sound := true
	for _, m := range v.open() {
		to, known := members[m.name]
		if !known {
			r.refuse(m.value, "unknown member: a rule has route, currency, min, max and weight")
			continue
		}
		if m.raw.Kind() == 'n' {
			continue
		}
		if err := json.Unmarshal(m.raw, to.into); err != nil {
			r.refuse(m.value, "want %s", to.want)
			sound = false
		}
	}
	if !sound {
		return
	}
	if member, want := rule.Check(); member != "" {
		r.refuse(v.find(member), "want %s", want)
		return
	}
	r.table = append(r.table, rule)
	r.named = append(r.named, v.find("route"))
}

// match compares the routes of the rules with those of the connectors.
func (r *reading) match() {
	used := make(map[string]bool)
	for i, rule := range r.table {
		used[rule.Route] = true
		_, declared := r.declared[rule.Route]
		_, open := r.connectors[rule.Route]
		switch {
		case declared || open:
		case rule.Route != domain.SandboxRoute:
			r.refuse(r.named[i], "the route %q has no connector: add it to \"connectors\"", rule.Route)
		case !r.source.Sandbox:
			r.refuse(r.named[i], "the route %q is the simulated provider's: it needs --sandbox", rule.Route)
		default:
			r.connectors[rule.Route] = connector.Opened{Type: sandboxType}
		}
	}
	for route, v := range r.declared {
		if !used[route] {
			r.warn(v, "no rule leads to the route %q: its connector only follows what was begun before", route)
		}
	}
}

// typeNames lists the types for a person.
func (r *reading) typeNames() string {
	names := make([]string, 0, len(r.source.Types)+1)
	for _, t := range r.source.Types {
		names = append(names, t.Name)
	}
	return strings.Join(append(names, sandboxType), ", ")
}
