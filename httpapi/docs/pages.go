package docs

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/ui"
	"payledger/httpapi/wire"

	"github.com/swaggest/swgui"
	"github.com/swaggest/swgui/v5/static"
	"github.com/swaggest/swgui/v5emb"
)

// OpenAPI is the document of the merchants' API.
//
//go:embed openapi.yaml
var OpenAPI []byte

//go:embed problem.html webhooks.html clients.html landing.html
var documents embed.FS

// Path is where the documentation page is.
const Path = "/docs"

// Pages are the documents behind the API: what each problem means, the OpenAPI document, and a page
// to read it on. They are rendered once.
type Pages struct {
	texts   map[string][]byte // pages of text, by path
	landing wire.Landing

	reader       []byte // the page on which the API's document is read
	readerPolicy string // its Content-Security-Policy

	openAPI *ui.File
	files   map[string]*ui.File // those that the documentation page loads, by name
	version string              // digest of them all
}

// Config is what the documents say of the program.
type Config struct {
	PublicURL string // without a trailing slash
	Prefix    string // its path, "" for the root

	Account string // path of the merchants' account

	RetrySchedule []time.Duration // the waits before each try of a notification
}

// New makes the pages of a program.
func New(cfg Config) (*Pages, error) {
	site, err := ui.New()
	if err != nil {
		return nil, err
	}
	tmpl, err := site.Templates(documents, "*.html")
	if err != nil {
		return nil, fmt.Errorf("documents: %w", err)
	}
	p := &Pages{texts: make(map[string][]byte), landing: landingOf(cfg)}
	server := "servers:\n  - url: "
	p.openAPI = ui.NewFile("application/yaml", bytes.Replace(OpenAPI, []byte(server+"/\n"), []byte(server+cmp.Or(cfg.Prefix, "/")+"\n"), 1))
	if err := p.loadFiles(); err != nil {
		return nil, fmt.Errorf("documentation page: %w", err)
	}
	p.renderReader(swgui.Config{
		Title: name, SwaggerJSON: cfg.Prefix + "/openapi.yaml", BasePath: cfg.Prefix + Path + "/" + p.version, InternalBasePath: Path,
	})
	clients, err := clientPage()
	if err != nil {
		return nil, err
	}
	texts := map[string]about{"/": landingPage(cfg), Path + "/clients": clients}
	if texts[Path+"/webhooks"], err = webhookPage(cfg.RetrySchedule); err != nil {
		return nil, err
	}
	for _, row := range edge.ProblemRows() {
		var fields []edge.ProblemRow
		if row.Code == domain.ValidationFailed {
			fields = edge.FieldRows()
		}
		texts["/problems/"+string(row.Code)] = problemPage(row, "", fields)
	}
	for _, row := range edge.FieldRows() {
		texts["/problems/"+string(row.Code)] = problemPage(row, domain.ValidationFailed, nil)
	}
	for at, of := range texts {
		// The payment page's handler serves the stylesheet of all pages.
		of.data["Root"] = strings.Repeat("../", strings.Count(at, "/")-1) + "p/"
		of.data["Lang"], of.data["Plain"], of.data["Base"], of.data["Prefix"] = "en", true, cfg.PublicURL, cfg.Prefix
		var b bytes.Buffer
		if err := tmpl.ExecuteTemplate(&b, of.template, of.data); err != nil {
			return nil, fmt.Errorf("page %s: %w", at, err)
		}
		p.texts[at] = b.Bytes()
	}
	return p, nil
}

// about is what a page says.
type about struct {
	template string
	data     map[string]any
}

// problemPage explains a problem, or the one of a field, which is of another problem.
func problemPage(row edge.ProblemRow, of domain.Code, fields []edge.ProblemRow) about {
	var listed []map[string]any
	for _, f := range fields {
		listed = append(listed, map[string]any{"Code": f.Code, "Page": template.HTML(f.Page)}) //nolint:gosec // our own text
	}
	return about{"problem.html", map[string]any{
		"Code": row.Code, "Status": row.Status, "StatusText": http.StatusText(row.Status),
		"Title": row.Title, "Page": template.HTML(row.Page), "Field": of, "Fields": listed, //nolint:gosec // our own text
	}}
}

// Text answers GET for a page of text.
func (p *Pages) Text(x *edge.Exchange) error {
	body, ok := p.texts[x.Request.URL.EscapedPath()]
	if !ok {
		return wire.Problem{Code: domain.PathNotFound}
	}
	ui.Secure(x.Header())
	x.ReplyBytes(http.StatusOK, "text/html; charset=utf-8", body)
	return nil
}

// loadFiles takes the files of the documentation page, all but two of them
// compressed, from its package.
func (p *Pages) loadFiles() error {
	p.files = make(map[string]*ui.File)
	entries, err := fs.ReadDir(static.FS, ".")
	if err != nil {
		return err
	}
	all := sha256.New()
	for _, e := range entries {
		content, err := fs.ReadFile(static.FS, e.Name())
		if err != nil {
			return err
		}
		name, compressed := strings.CutSuffix(e.Name(), ".gz")
		contentType := map[string]string{
			".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".html": "text/html; charset=utf-8", ".png": "image/png",
		}[path.Ext(name)]
		if compressed {
			p.files[name] = ui.NewCompressedFile(contentType, content)
		} else {
			p.files[name] = ui.NewFile(contentType, content)
		}
		all.Write([]byte(p.files[name].Digest))
	}
	p.version = hex.EncodeToString(all.Sum(nil)[:8])
	return nil
}

// OpenAPI answers GET /openapi.yaml.
func (p *Pages) OpenAPI(x *edge.Exchange) error {
	p.openAPI.Serve(x, x.Request, false)
	return nil
}

// Docs answers GET /docs. Everything that the page loads comes from this
// program, so it works offline.
func (p *Pages) Docs(x *edge.Exchange) error {
	x.Header().Set("Cache-Control", "no-store")
	secure(x.Header(), p.readerPolicy)
	x.ReplyBytes(http.StatusOK, "text/html; charset=utf-8", p.reader)
	return nil
}

// File answers GET /docs/{version}/{file}: a file that the page loads. One of
// another version of the program gets this version's, as ui.ServeAsset does.
func (p *Pages) File(x *edge.Exchange) error {
	f, ok := p.files[x.Vars["file"]]
	if !ok {
		return wire.Problem{Code: domain.PathNotFound}
	}
	secure(x.Header(), p.readerPolicy)
	f.Serve(x, x.Request, x.Vars["version"] == p.version)
	return nil
}

// renderReader makes the page that reads the API's document, and its policy: of the
// scripts written into the page it allows just those that the library wrote, by their
// digests. Swagger UI sets styles of elements, which a policy can only allow all together.
func (p *Pages) renderReader(c swgui.Config) {
	var page rendered
	v5emb.NewHandlerWithConfig(c).ServeHTTP(&page, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: Path}})
	p.reader = page.Bytes()
	allowed := []string{"'self'"}
	for _, script := range regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllSubmatch(p.reader, -1) {
		digest := sha256.Sum256(script[1])
		allowed = append(allowed, "'sha256-"+base64.StdEncoding.EncodeToString(digest[:])+"'")
	}
	p.readerPolicy = "default-src 'self'; script-src " + strings.Join(allowed, " ") + "; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
}

// rendered is a page that a handler wrote, without its headers.
type rendered struct{ bytes.Buffer }

func (*rendered) Header() http.Header { return http.Header{} }
func (*rendered) WriteHeader(int)     {}

// secure sets the headers of a page for people.
func secure(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy+"; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
}
