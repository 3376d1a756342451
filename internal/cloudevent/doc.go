// Package cloudevent parses events: CloudEvents in structured, binary and batch mode, the short form
// in plain JSON, and lines of these that programs print.
package cloudevent
