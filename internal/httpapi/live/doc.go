// Package live serves feeds: the events of a namespace as they are published, over server-sent events
// or a WebSocket, and the tickets that open them where a token cannot be sent.
package live
