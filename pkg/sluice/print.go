package sluice

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
)

// hidden stands for a secret where a value is printed.
const hidden = "***"

// String returns the secret without its value.
func (s Secret) String() string { return "secret " + hidden + SecretHint(s.Value) }

// Format writes the secret without its value, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { write(f, s.String()) }

// LogValue returns the secret without its value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// String returns the endpoint's host and the names of its headers: their values, the secret, and what else stands in the
// URL may be for nobody else.
func (e Endpoint) String() string {
	names := make([]string, 0, len(e.Headers))
	for name := range e.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	return HideURL(e.URL) + " [" + strings.Join(names, " ") + "]"
}

// HideURL returns an endpoint's URL by scheme and host: many receivers take a secret in path, query or user. What is
// hidden is written "/***".
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

// hiddenPath stands for what is hidden of a URL.
const hiddenPath = "/" + hidden

// Format writes the endpoint as String returns it, whatever the verb.
func (e Endpoint) Format(f fmt.State, _ rune) { write(f, e.String()) }

// LogValue returns the endpoint as String does.
func (e Endpoint) LogValue() slog.Value { return slog.StringValue(e.String()) }

// LogValue returns what a log may know of the subscription. What encodes it as JSON would show
// its endpoint's headers.
func (s *Subscription) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", s.ID), slog.String("namespace", s.Namespace), slog.Uint64("revision", s.Revision))
}

// write writes the text; fmt does not ask whether it could either.
func write(w io.Writer, text string) { _, _ = io.WriteString(w, text) }
