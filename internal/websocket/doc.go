// Package websocket implements the server's side of a WebSocket (RFC 6455) on which only the server
// sends messages. The peer may ping, answer and close; a message from the peer ends the connection.
// A connection therefore needs little state and work: a reader with a small buffer, and frames that
// are written unchanged, several at once. Nothing is compressed.
//
// Each end closes at most once, and the server closes the connection:
//
//	      Close, or a word amiss (Hear)         the peer's close, or 2 s (Close)
//	open ───────────────────────────────▶ said ──────────────────────────────────▶ closed
//	  │  the peer's close, which is answered; or the connection broke (Hear)         ▲
//	  └──────────────────────────────────────────────────────────────────────────────┘
package websocket
