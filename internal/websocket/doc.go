// Package websocket implements a server's half of a WebSocket (RFC 6455) on which only the server
// sends. The peer may ping, answer and close; a message of the peer ends the connection. So there is
// little state and work for a connection: a reader of a few bytes, and frames that are written
// unchanged, several at once. Nothing is compressed.
//
// Each end closes at most once, and the server closes the connection:
//
//	      Close, or a word amiss (Hear)         the peer's close, or 2 s (Close)
//	open ───────────────────────────────▶ said ──────────────────────────────────▶ closed
//	  │  the peer's close, which is answered; or the connection broke (Hear)         ▲
//	  └──────────────────────────────────────────────────────────────────────────────┘
package websocket
