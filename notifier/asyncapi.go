package notifier

import _ "embed" // for asyncapi.yaml

//go:embed asyncapi.yaml
var asyncAPI string

// AsyncAPI is the AsyncAPI 3.0 document of everything on NATS that others may
// use, in YAML.
func AsyncAPI() string { return asyncAPI }
