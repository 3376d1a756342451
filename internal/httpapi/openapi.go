package httpapi

import (
	_ "embed" // for the OpenAPI document
	"net/http"

	"github.com/labstack/echo/v4"
)

//go:embed openapi.yaml
var openapiDocument []byte

func (s *Server) openapi(c echo.Context) error {
	return c.Blob(http.StatusOK, "application/yaml", openapiDocument)
}
