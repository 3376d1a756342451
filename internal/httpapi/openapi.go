package httpapi

import (
	_ "embed" // for the OpenAPI document
	"net/http"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/reference"
)

//go:embed openapi.yaml
var openapiDocument []byte

// stylePath is the path of the stylesheet of the pages.
const stylePath = "/docs/style.css"

// pagePolicy is the Content-Security-Policy of the pages: it permits their stylesheet and nothing
// else.
const pagePolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pages renders the reference as JSON and as HTML. Each form is made from the OpenAPI document at
// the first request.
type pages struct {
	json func() ([]byte, error)
	html func() ([]byte, error)
}

func newPages(version string) pages {
	return pages{
		json: sync.OnceValues(func() ([]byte, error) { return reference.JSON(openapiDocument) }),
		html: sync.OnceValues(func() ([]byte, error) { return reference.Page(openapiDocument, version) }),
	}
}

// openapi answers GET /openapi.yaml without a token; openapiJSON has the same document.
func (s *Server) openapi(c echo.Context) error {
	return c.Blob(http.StatusOK, "application/yaml", openapiDocument)
}

func (s *Server) openapiJSON(c echo.Context) error {
	data, err := s.pages.json()
	if err != nil {
		return err
	}
	return c.JSONBlob(http.StatusOK, data)
}

// docs shows the reference.
func (s *Server) docs(c echo.Context) error {
	data, err := s.pages.html()
	if err != nil {
		return err
	}
	return sendPage(c, data)
}

func (s *Server) docsStyle(c echo.Context) error {
	return c.Blob(http.StatusOK, "text/css; charset=utf-8", reference.Style())
}

func sendPage(c echo.Context, data []byte) error {
	c.Response().Header().Set(echo.HeaderContentSecurityPolicy, pagePolicy)
	return c.HTMLBlob(http.StatusOK, data)
}

// product is the body of the response at /.
type product struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Summary string `json:"summary"`
	Docs    string `json:"docs"`
	Console string `json:"console"`
	OpenAPI string `json:"openapi"`
	YAML    string `json:"openapi_yaml"`
	API     string `json:"api"`
	Health  string `json:"health"`
	Ready   string `json:"ready"`
}

const productSummary = "Delivers NATS JetStream events as signed webhooks, agent wake-ups, live feeds and Durable Streams."

// describe names the product and the most useful URLs, as JSON or, for browsers, as a page.
func (s *Server) describe(c echo.Context) error {
	c.Response().Header().Add(echo.HeaderVary, echo.HeaderAccept)
	if !strings.Contains(c.Request().Header.Get(echo.HeaderAccept), echo.MIMETextHTML) {
		return c.JSON(http.StatusOK, product{
			Name: "Sluice", Version: s.opts.Version, Summary: productSummary,
			Docs: "/docs", Console: consolePath + "/", OpenAPI: "/openapi.json", YAML: "/openapi.yaml", API: "/v1", Health: "/healthz", Ready: "/readyz",
		})
	}
	data, err := reference.Root("Sluice", productSummary, s.opts.Version)
	if err != nil {
		return err
	}
	return sendPage(c, data)
}
