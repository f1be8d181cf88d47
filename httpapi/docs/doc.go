// Package docs is the documentation that the program serves: the OpenAPI
// document and the page to read it on, a page for each error code, the page on
// receiving webhooks, the page on clients, and the landing page that leads to
// them.
package docs
