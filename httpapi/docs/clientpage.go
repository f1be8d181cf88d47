package docs

import (
	"embed"
	"strings"
)

//go:embed clients/*
var clientFiles embed.FS

// Client is how to call the API from one language.
type Client struct {
	ID       string // in the page's addresses
	Language string
	With     string // which tool generates the client, or what is used instead
	File     string // the name under which the commands expect the code
	Commands string // for a shell, in a directory with openapi.yaml and the code
	Code     string // creates, reads, lists and refunds a payment, and adds a webhook endpoint
}

// Clients are the languages there is an example in. The code reads BASE,
// PROJECT_ID and API_KEY from its environment and runs against a sandbox.
func Clients() ([]Client, error) {
	all := []Client{
		{ID: "go", Language: "Go", With: "oapi-codegen", File: "main.go"},
		{ID: "typescript", Language: "TypeScript", With: "openapi-typescript and openapi-fetch", File: "shop.ts"},
		{ID: "python", Language: "Python", With: "openapi-python-client", File: "shop.py"},
		{ID: "php", Language: "PHP", With: "its extension curl, without generated code", File: "shop.php"},
	}
	for i := range all {
		c := &all[i]
		for ext, text := range map[string]*string{".sh": &c.Commands, ".txt": &c.Code} {
			content, err := clientFiles.ReadFile("clients/" + c.ID + ext)
			if err != nil {
				return nil, err
			}
			*text = strings.TrimSpace(string(content))
		}
	}
	return all, nil
}

// clientPage is the page for programmers who call the API.
func clientPage() (about, error) {
	clients, err := Clients()
	return about{"clients.html", map[string]any{"Title": "Clients", "Clients": clients}}, err
}
