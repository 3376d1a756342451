// Package websocket knows a server's half of a WebSocket (RFC 6455) on which only the server speaks. Whoever is at the other end may
// ping, answer and close; a message of theirs ends it. So there is little to remember of a connection and to do for it: it is
// a reader of a few bytes, and frames that are written as they are, as many at once as there are. Nothing is compressed.
//
// Each end closes at most once, and the server closes the connection:
//
//	      Close, or a word amiss (Hear)         the peer's close, or 2 s (Close)
//	open ───────────────────────────────▶ said ──────────────────────────────────▶ closed
//	  │  the peer's close, which is answered; or the connection broke (Hear)         ▲
//	  └──────────────────────────────────────────────────────────────────────────────┘
package websocket
