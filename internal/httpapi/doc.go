// Package httpapi knows the HTTP side of the server: paths, bodies, headers and status codes,
// and the OpenAPI document that describes them. A handler reads the request, makes one call
// and writes the answer; errors become answers in one place. It decides nothing else.
package httpapi
