// Package admin is the administration on the unix socket in the data directory: projects and keys,
// books of all projects, backup, verification and replay. Operations that merchants have too are
// those of package merchant.
package admin
