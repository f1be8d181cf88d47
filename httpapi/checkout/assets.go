package checkout

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed static
var static embed.FS

// assetFolder lies below /p/. A token has no slash in it, so no asset can be
// mistaken for a link.
const assetFolder = "assets/"

// asset is a file the page loads. Its name holds a digest of its content, so
// a copy of it never goes stale.
type asset struct {
	name        string // page.0123456789abcdef.css
	contentType string
	body        []byte
}

// loadAssets answers the files by the name under which they are served.
func loadAssets() (map[string]asset, error) {
	all := make(map[string]asset)
	for file, contentType := range map[string]string{
		"page.css": "text/css; charset=utf-8",
		"page.js":  "text/javascript; charset=utf-8",
		"icon.svg": "image/svg+xml",
	} {
		body, err := static.ReadFile("static/" + file)
		if err != nil {
			return nil, fmt.Errorf("asset %s: %w", file, err)
		}
		sum := sha256.Sum256(body)
		ext := path.Ext(file)
		name := strings.TrimSuffix(file, ext) + "." + hex.EncodeToString(sum[:8]) + ext
		all[name] = asset{name: name, contentType: contentType, body: body}
	}
	return all, nil
}

func (a asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", a.contentType)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
}

// parseTemplates gives the templates a function "asset" from a file's plain
// name to its address relative to /p/.
func parseTemplates(assets map[string]asset) (*template.Template, error) {
	paths := make(map[string]string, len(assets))
	for name := range assets {
		plain, _, _ := strings.Cut(name, ".")
		paths[plain+path.Ext(name)] = assetFolder + name
	}
	return template.New("").Funcs(template.FuncMap{
		"asset": func(file string) (string, error) {
			p, ok := paths[file]
			if !ok {
				return "", fmt.Errorf("there is no asset %q", file)
			}
			return p, nil
		},
	}).ParseFS(static, "static/*.html")
}
