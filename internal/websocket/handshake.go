package websocket

import (
	"crypto/sha1" //nolint:gosec // required by the handshake; it proves only that it was read
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

const (
	// Version is the version of the protocol. A response that refuses a handshake has it in the
	// header Sec-WebSocket-Version.
	Version = "13"

	acceptSalt = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
	keyLength  = 16
)

// Accept returns the header Sec-WebSocket-Accept for a handshake. An error says why the handshake
// is invalid.
func Accept(req *http.Request) (string, error) {
	keys := req.Header.Values("Sec-Websocket-Key")
	switch version := req.Header.Get("Sec-Websocket-Version"); {
	case req.Method != http.MethodGet || req.ProtoMajor != 1 || req.ProtoMinor < 1:
		return "", fmt.Errorf("%s over %s, not GET over HTTP/1.1", req.Method, req.Proto)
	case !names(req.Header.Values("Connection"), "upgrade") || !names(req.Header.Values("Upgrade"), "websocket"):
		return "", errors.New("the headers Connection: Upgrade and Upgrade: websocket are both required")
	case version != Version:
		return "", fmt.Errorf("the version is %q; this server speaks %s", version, Version)
	case req.ContentLength != 0:
		return "", errors.New("it has a body")
	case len(keys) != 1:
		return "", fmt.Errorf("there are %d headers Sec-WebSocket-Key, not one", len(keys))
	}
	key := strings.TrimSpace(keys[0])
	if raw, err := base64.StdEncoding.DecodeString(key); err != nil || len(raw) != keyLength {
		return "", fmt.Errorf("Sec-WebSocket-Key is not %d bytes in base64", keyLength)
	}
	sum := sha1.Sum([]byte(key + acceptSalt)) //nolint:gosec // as above
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}

// names reports whether one of a header's values, which are lists separated by commas, contains a
// word, regardless of case.
func names(values []string, word string) bool {
	for _, value := range values {
		for one := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(one), word) {
				return true
			}
		}
	}
	return false
}
