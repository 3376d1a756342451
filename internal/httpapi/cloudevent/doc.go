// Package cloudevent parses the events of HTTP requests: CloudEvents in structured, binary and batch
// mode, and the short form in plain JSON.
package cloudevent
