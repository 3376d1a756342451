package endpoint

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// masked replaces a secret in the excerpt of a response.
const masked = "***"

// minMasked is the minimum length of a secret that is masked, because shorter texts are too common.
const minMasked = 6

// mask lists the texts to remove from an endpoint's responses, longest first. Many endpoints repeat
// the request in an error.
type mask []string

// newMask returns the mask of a subscription. It has each of the subscription's secrets, even
// expired ones, with and without prefix and base64 padding, and decoded. It also has the values of
// headers whose names suggest credentials, the endpoint's credentials, and the access token, if
// there is one. Each text is included in plain form, with escaped slashes as in JSON, and
// query-escaped.
func newMask(sub *sluice.Subscription, token *oauth2.Token) mask {
	var m mask
	for _, secret := range sub.Secrets {
		m = m.add(secret.Value)
		encoded, ok := strings.CutPrefix(secret.Value, sluice.SecretPrefix)
		if !ok {
			continue
		}
		m = m.add(encoded, strings.TrimRight(encoded, "="))
		if key, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			m = m.add(string(key), base64.RawURLEncoding.EncodeToString(key))
		}
	}
	for name, value := range sub.Endpoint.Headers {
		if isCredential(name) {
			m = m.add(value)
			m = m.add(strings.Fields(value)...) // "Bearer <token>"
		}
	}
	if auth, secret := sub.Endpoint.Auth, sub.Credentials.ClientSecret; auth != nil && secret != "" {
		m = m.add(secret, base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(auth.ClientID)+":"+url.QueryEscape(secret))))
	}
	if token != nil {
		m = m.add(token.AccessToken)
	}
	slices.SortFunc(m, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return m
}

// add adds texts in the forms in which a response may repeat them.
func (m mask) add(texts ...string) mask {
	for _, text := range texts {
		if len(text) < minMasked {
			continue
		}
		m = append(m, text)
		for _, other := range []string{strings.ReplaceAll(text, "/", `\/`), url.QueryEscape(text)} {
			if other != text {
				m = append(m, other)
			}
		}
	}
	return m
}

// isCredential reports whether a header's name suggests a secret value.
func isCredential(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{
		"auth", "cookie", "credential", "key", "pass", "secret", "session", "signature", "token",
	}, func(word string) bool { return strings.Contains(name, word) })
}

// longest returns the length of the longest text in the mask.
func (m mask) longest() int {
	if len(m) == 0 {
		return 0
	}
	return len(m[0])
}

// apply returns the text without secrets.
func (m mask) apply(text string) string { return m.head(text, len(text)) }

// head returns the first limit bytes of the text, and masks the secrets that begin within them. The
// result may be shorter or longer than limit, as a secret is shorter or longer than masked.
// O(len(text) · len(m)) if the text has a secret.
func (m mask) head(text string, limit int) string {
	limit = min(limit, len(text))
	if !slices.ContainsFunc(m, func(secret string) bool { return strings.Contains(text, secret) }) { // not a secret: to the endpoint, which wrote the text
		return text[:limit]
	}
	var kept strings.Builder
	for at := 0; at < limit; {
		if n := m.at(text[at:]); n > 0 {
			kept.WriteString(masked)
			at += n
			continue
		}
		kept.WriteByte(text[at])
		at++
	}
	return kept.String()
}

// at returns the length of the secret with which the text begins; 0: it begins with none.
func (m mask) at(text string) int {
	for _, secret := range m {
		if strings.HasPrefix(text, secret) { // not a secret: to the endpoint, which wrote the text
			return len(secret)
		}
	}
	return 0
}
