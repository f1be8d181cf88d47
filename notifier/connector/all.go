package connector

// All makes every connector there is. That of the sandbox is left out by the
// caller where the operator has not turned the sandbox on.
func All(e Env) []Connector {
	return []Connector{
		NewSandbox(e),
	}
}
