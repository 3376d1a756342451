// Package httpkit contains the parts that the HTTP handlers of all protocols share: it reads
// requests, decides about the rights of their callers, and maps errors to statuses.
package httpkit
