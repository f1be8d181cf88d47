package connector

import "fmt"

// Provider is a row of the providers there are.
type Provider struct {
	Name string
	// New makes the connector from the provider's own settings. It answers nil
	// when the operator has not configured the provider, and an error when its
	// settings are incomplete or wrong.
	New func(Env) (Connector, error)
	// Sample configures the provider for the tests that every connector must pass.
	Sample func(*Env)
}

// Providers are all there are. A new one is a file here and a row.
func Providers() []Provider {
	return []Provider{
		{"sandbox", newSandbox, func(e *Env) { e.Sandbox = true }},
	}
}

// All makes the connectors of the providers that the operator has configured.
func All(e Env) ([]Connector, error) {
	var all []Connector
	for _, p := range Providers() {
		c, err := p.New(e)
		if err != nil {
			return nil, fmt.Errorf("the connector %s: %w", p.Name, err)
		}
		if c != nil {
			all = append(all, c)
		}
	}
	return all, nil
}
