package sluice

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
)

// hidden replaces a secret in printed values.
const hidden = "***"

// String returns the secret without its value.
func (s Secret) String() string { return "secret " + hidden + SecretHint(s.Value) }

// Format writes the secret without its value, for any verb.
func (s Secret) Format(f fmt.State, _ rune) { write(f, s.String()) }

// LogValue returns the secret without its value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// String returns the endpoint's host and the names of its headers. Header values, the secret, and
// the rest of the URL may be confidential.
func (e Endpoint) String() string {
	names := make([]string, 0, len(e.Headers))
	for name := range e.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	return HideURL(e.URL) + " [" + strings.Join(names, " ") + "]"
}

// HideURL returns the scheme and host of an endpoint's URL, followed by "/***" for the hidden part.
// Many receivers expect a secret in the path, the query or the user.
func HideURL(address string) string {
	u, err := url.Parse(address)
	switch {
	case address == "":
		return ""
	case err != nil || u.Host == "":
		return hidden
	case u.User == nil && u.Path == "" && u.RawQuery == "" && u.Fragment == "":
		return u.Scheme + "://" + u.Host
	}
	return u.Scheme + "://" + u.Host + hiddenPath
}

// IsHidden reports whether HideURL has hidden a part of an endpoint's URL.
func IsHidden(address string) bool { return strings.HasSuffix(address, hidden) }

// hiddenPath replaces the hidden part of a URL.
const hiddenPath = "/" + hidden

// Format writes the endpoint as String returns it, for any verb.
func (e Endpoint) Format(f fmt.State, _ rune) { write(f, e.String()) }

// LogValue returns the endpoint as String does.
func (e Endpoint) LogValue() slog.Value { return slog.StringValue(e.String()) }

// LogValue returns the loggable part of the subscription. Encoding it as JSON would reveal its
// endpoint's headers.
func (s *Subscription) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", s.ID), slog.String("namespace", s.Namespace), slog.Uint64("revision", s.Revision))
}

// write writes the text; fmt ignores write errors, too.
func write(w io.Writer, text string) { _, _ = io.WriteString(w, text) }
