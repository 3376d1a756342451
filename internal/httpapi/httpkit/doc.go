// Package httpkit is shared by the HTTP handlers of all protocols: it reads requests, decides about the
// rights of their callers, and maps errors to statuses.
package httpkit
