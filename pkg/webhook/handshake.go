package webhook

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Headers of the handshake (CloudEvents, HTTP 1.1 Web Hooks for Event Delivery, "Abuse Protection").
const (
	HeaderRequestOrigin = "WebHook-Request-Origin" // the name of the requesting server
	HeaderRequestRate   = "WebHook-Request-Rate"   // intended requests per minute
	HeaderAllowedOrigin = "WebHook-Allowed-Origin"
	HeaderAllowedRate   = "WebHook-Allowed-Rate"
)

// AnswerHandshake answers a handshake request, and reports whether the request was one; it does not
// answer any other request. It permits the servers named in origins, such as "events.example.com"
// (case-insensitive; nil permits every server), to send up to perMinute requests per minute (0:
// unlimited). Other servers get 403.
//
//	if webhook.AnswerHandshake(w, r, []string{"events.example.com"}, 0) {
//		return
//	}
func AnswerHandshake(w http.ResponseWriter, r *http.Request, origins []string, perMinute int) bool {
	origin := r.Header.Get(HeaderRequestOrigin)
	if r.Method != http.MethodOptions || origin == "" {
		return false
	}
	if len(origins) > 0 && !slices.ContainsFunc(origins, func(o string) bool { return strings.EqualFold(o, origin) }) {
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	rate := "*"
	if perMinute > 0 {
		rate = strconv.Itoa(perMinute)
	}
	w.Header().Set("Allow", http.MethodPost)
	w.Header().Set(HeaderAllowedOrigin, origin)
	w.Header().Set(HeaderAllowedRate, rate)
	w.WriteHeader(http.StatusOK)
	return true
}
