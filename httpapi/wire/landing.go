package wire

// Landing is what a program finds at the root: where everything else is.
type Landing struct {
	Name     string `json:"name"`
	API      string `json:"api"`
	OpenAPI  string `json:"openapi"`
	Docs     string `json:"docs"`
	Clients  string `json:"clients"`
	Webhooks string `json:"webhooks"`
	Account  string `json:"account"`
}
