// Package docs is the documentation that the program serves: the OpenAPI
// document and the page to read it on, a page for each error code, the page on
// receiving webhooks and the page on clients.
package docs
