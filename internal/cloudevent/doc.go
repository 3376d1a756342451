// Package cloudevent parses events: CloudEvents in structured, binary and batch mode, events in the
// short form in plain JSON, and the lines of JSON that programs print.
package cloudevent
