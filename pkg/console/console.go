// Package console serves the console, for operators, and the portal, for one tenant: pages in a browser that call the HTTP API of
// a Sluice server and nothing else. The server itself mounts them at /console/ and /portal/. Another Go program mounts them
// below a prefix of its own, and forwards their calls to a server:
//
//	server, _ := url.Parse("http://127.0.0.1:8080")
//	mux.Handle("/sluice/", console.Handler("/sluice", console.Options{Server: server}))
//
// The pages have no secrets: the caller signs in with a token, which stays in the tab. There are no cookies.
package console

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"io/fs"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"
	"sync"
)

//go:generate go run -modfile=../../scripts/esbuild.mod ../../scripts/bundle.go

//go:embed assets
var assets embed.FS

// Options of a handler.
type Options struct {
	// Page is "console" (default) or "portal".
	Page string
	// Server is the Sluice server to which calls of the pages are forwarded. Without it, the API is at the root of
	// the pages' own origin.
	Server *url.URL
	// FrameAncestors are origins whose pages may show this one in a frame, such as https://app.example.com; none by default.
	FrameAncestors []string
	// Title is the name in the heading, "Sluice" by default.
	Title string
	// ReadOnly pages change nothing. It protects from accidents; what a caller may do is decided by the API.
	ReadOnly bool
}

// Handler serves the pages below a prefix such as "/console", and their files. Any path below it is a view, so every view has a
// URL of its own.
func Handler(prefix string, o Options) http.Handler {
	prefix = strings.TrimSuffix(prefix, "/")
	o.Page = cmp.Or(o.Page, "console")
	o.Title = cmp.Or(o.Title, "Sluice")
	h := &handler{prefix: prefix, options: o, policy: policy(o)}
	h.files = sync.OnceValues(h.load)
	mux := http.NewServeMux()
	mux.HandleFunc(prefix+"/", h.page)
	mux.HandleFunc(prefix+"/assets/{name}", h.asset)
	if o.Page == portal {
		mux.HandleFunc(prefix+"/element.js", h.element)
	}
	if o.Server != nil {
		mux.Handle(prefix+apiPath+"/", http.StripPrefix(prefix+apiPath, forward(o.Server)))
	}
	return mux
}

// portal is the page of one tenant.
const portal = "portal"

// apiPath is the path below the prefix from which calls are forwarded.
const apiPath = "/api"

// handler serves one page with its files.
type handler struct {
	prefix  string
	options Options
	policy  string
	files   func() (map[string]*file, error)
}

// file is what is sent, as it is and compressed.
type file struct {
	plain, zipped []byte
	kind, tag     string
}

// policy allows scripts and styles of the own origin only, and no string as a script or as markup.
func policy(o Options) string {
	ancestors := "'none'"
	if len(o.FrameAncestors) > 0 {
		ancestors = strings.Join(o.FrameAncestors, " ")
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'; frame-ancestors " + ancestors
}

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="sluice-prefix" content="{{.Prefix}}">
<meta name="sluice-api" content="{{.API}}">
<meta name="sluice-title" content="{{.Title}}">
<meta name="sluice-ancestors" content="{{.Ancestors}}">
<meta name="sluice-readonly" content="{{.ReadOnly}}">
<title>{{.Title}}</title>
<link rel="stylesheet" href="{{.Prefix}}/assets/style.css">
<link rel="icon" href="data:,">
<script type="module" src="{{.Prefix}}/assets/{{.Page}}.js"></script>
</head>
<body><div id="app"></div><noscript>This page needs JavaScript. The command line does all that it does: <code>sluice --help</code>.</noscript></body>
</html>
`

// load reads the embedded files, and makes the page.
func (h *handler) load() (map[string]*file, error) {
	all := map[string]*file{}
	err := fs.WalkDir(assets, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := assets.ReadFile(name)
		if err != nil {
			return err
		}
		all[path.Base(name)], err = fileOf(data, kindOf(name))
		return err
	})
	if err != nil {
		return nil, err
	}
	values := struct {
		Prefix, API, Page, Title, Ancestors string
		ReadOnly                            bool
	}{
		Prefix: h.prefix, Page: h.options.Page, Title: h.options.Title, Ancestors: strings.Join(h.options.FrameAncestors, " "), ReadOnly: h.options.ReadOnly,
	}
	if h.options.Server != nil {
		values.API = h.prefix + apiPath
	}
	form, err := template.New("page").Parse(page)
	if err != nil {
		return nil, err
	}
	var made bytes.Buffer
	if err := form.Execute(&made, values); err != nil {
		return nil, err
	}
	all["/"], err = fileOf(made.Bytes(), "text/html; charset=utf-8")
	return all, err
}

// kindOf returns the content type of a file. What the machine says of extensions does not matter.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	}
	return "text/plain; charset=utf-8"
}

func fileOf(data []byte, kind string) (*file, error) {
	var zipped bytes.Buffer
	w, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return &file{plain: data, zipped: zipped.Bytes(), kind: kind, tag: `"` + base64.RawURLEncoding.EncodeToString(sum[:9]) + `"`}, nil
}

func (h *handler) page(w http.ResponseWriter, r *http.Request) { h.send(w, r, "/") }

func (h *handler) asset(w http.ResponseWriter, r *http.Request) { h.send(w, r, r.PathValue("name")) }

// element sends the script of the element that shows the portal in a page of another origin.
func (h *handler) element(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	h.send(w, r, elementFile)
}

const elementFile = "element.js"

// send sends a file, unless the browser has it.
func (h *handler) send(w http.ResponseWriter, r *http.Request, name string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	files, err := h.files()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	f, known := files[name]
	if !known {
		http.NotFound(w, r)
		return
	}
	header := w.Header()
	header.Set("Content-Type", f.kind)
	header.Set("Content-Security-Policy", h.policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	if name == elementFile {
		header.Set("Cross-Origin-Resource-Policy", "cross-origin")
	} else {
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
	}
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-cache") // the browser asks whether its copy is the present one
	header.Set("ETag", f.tag)
	header.Set("Vary", "Accept-Encoding")
	if len(h.options.FrameAncestors) > 0 {
		header.Del("X-Frame-Options") // it cannot name origins
	} else {
		header.Set("X-Frame-Options", "DENY")
	}
	if strings.Contains(r.Header.Get("If-None-Match"), f.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	_, _ = w.Write(body) // the browser has gone
}

// forward sends the calls of pages to a server. Cookies of the host stay with it.
func forward(server *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(server)
			r.Out.Header.Del("Cookie")
		},
		FlushInterval: -1, // feeds are live
	}
}
