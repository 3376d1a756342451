// Package httpapi implements the HTTP interface of the server: paths, bodies, headers and status
// codes, and the OpenAPI document that describes them. A handler reads the request, makes one call
// and writes the response; errors become responses in one place. Domain decisions are made
// elsewhere.
package httpapi
