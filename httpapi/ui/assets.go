package ui

import (
	"embed"
	"fmt"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var static embed.FS

// AssetFolder is where a handler serves the assets, below its root.
const AssetFolder = "assets/"

// asset is a file the pages load. The name under which it is served holds the
// digest of its content, so a copy of it never goes stale.
type asset struct {
	*File
	name, ext string // "ui", ".css"
}

// path is the name under which it is served: ui.0123456789abcdef.css.
func (a asset) path() string { return a.name + "." + a.Digest + a.ext }

// loadAssets returns the assets by file, such as ui.css.
func loadAssets() (map[string]asset, error) {
	all := make(map[string]asset)
	for file, contentType := range map[string]string{
		"ui.css":   "text/css; charset=utf-8",
		"ui.js":    "text/javascript; charset=utf-8",
		"icon.svg": "image/svg+xml",
	} {
		content, err := static.ReadFile("static/" + file)
		if err != nil {
			return nil, fmt.Errorf("asset %s: %w", file, err)
		}
		ext := path.Ext(file)
		all[file] = asset{File: NewFile(contentType, content), name: strings.TrimSuffix(file, ext), ext: ext}
	}
	return all, nil
}

// ServeAsset answers a GET or HEAD of the asset that is served under the name,
// and reports whether there is one. A name with the digest of other content, as a
// page of another version of the program has it, gets this version's file, which
// no cache may keep under that name: while several nodes are upgraded one after
// the other, a page finds its stylesheet on each of them.
func (s *Site) ServeAsset(w http.ResponseWriter, r *http.Request, name string) bool {
	ext := path.Ext(name)
	base, digest, ok := strings.Cut(strings.TrimSuffix(name, ext), ".")
	a, found := s.assets[base+ext]
	if !ok || !found || !readOnly(r) || len(digest) != 16 || strings.Trim(digest, "0123456789abcdef") != "" {
		return false
	}
	a.Serve(w, r, digest == a.Digest)
	return true
}
