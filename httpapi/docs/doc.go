// Package docs is the documentation that the program serves: the OpenAPI
// document and the page to read it on, a page for each error code, and the page
// on receiving webhooks.
package docs
