package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed static
var static embed.FS

// AssetFolder is where a handler serves the assets, below its root.
const AssetFolder = "assets/"

// asset is a file the pages load. The name under which it is served holds a
// digest of its content, so a copy of it never goes stale.
type asset struct {
	file        string // ui.css
	contentType string
	body        []byte
}

func loadAssets() (map[string]asset, error) {
	all := make(map[string]asset)
	for file, contentType := range map[string]string{
		"ui.css":   "text/css; charset=utf-8",
		"ui.js":    "text/javascript; charset=utf-8",
		"icon.svg": "image/svg+xml",
	} {
		body, err := static.ReadFile("static/" + file)
		if err != nil {
			return nil, fmt.Errorf("asset %s: %w", file, err)
		}
		sum := sha256.Sum256(body)
		ext := path.Ext(file)
		name := strings.TrimSuffix(file, ext) + "." + hex.EncodeToString(sum[:8]) + ext
		all[name] = asset{file: file, contentType: contentType, body: body}
	}
	return all, nil
}

// ServeAsset answers a GET or HEAD of the asset that is served under the name,
// and reports whether there is one.
func (s *Site) ServeAsset(w http.ResponseWriter, r *http.Request, name string) bool {
	a, ok := s.assets[name]
	if !ok || !readOnly(r) {
		return false
	}
	w.Header().Set("Content-Type", a.contentType)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
	return true
}
