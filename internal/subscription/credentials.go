package subscription

import (
	"crypto/hmac"
	"net/url"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// takeCredentials removes the secrets from an endpoint's auth and tls, and returns them. It
// replaces the values behind the endpoint's pointers, and does not change them.
func takeCredentials(e *sluice.Endpoint) (taken sluice.Credentials) {
	if e.Auth != nil && e.Auth.ClientSecret != "" {
		auth := *e.Auth
		taken.ClientSecret, auth.ClientSecret = auth.ClientSecret, ""
		e.Auth = &auth
	}
	if e.TLS != nil && e.TLS.PrivateKey != "" {
		identity := *e.TLS
		taken.PrivateKey, identity.PrivateKey = identity.PrivateKey, ""
		e.TLS = &identity
	}
	return taken
}

// checkCredentials returns an error (InvalidRequest) unless the subscription has the credentials
// that its endpoint needs.
func checkCredentials(sub *sluice.Subscription, now time.Time) error {
	if sub.Endpoint.Auth != nil && sub.Credentials.ClientSecret == "" {
		return missingSecret("endpoint.auth.client_secret is missing")
	}
	if t := sub.Endpoint.TLS; t != nil && t.Certificate != "" {
		_, err := t.KeyPair(sub.Credentials.PrivateKey, now)
		return err
	}
	return nil
}

func missingSecret(message string) error {
	return sluice.Errorf(sluice.InvalidRequest, "%s", message).With("field", "endpoint.auth.client_secret")
}

// keepCredentials moves the credentials of a patched endpoint to the field where the server stores
// them, and keeps those that the patch leaves out. It keeps the client's secret only for the same
// client ID, token URL and host, so that a caller that does not know the secret cannot have it, or
// a token, sent elsewhere. A certificate that is unchanged may have expired.
func keepCredentials(before, after *sluice.Subscription, now time.Time) error {
	given, auth, identity := takeCredentials(&after.Endpoint), after.Endpoint.Auth, after.Endpoint.TLS
	if given.ClientSecret == "" && auth != nil && before.Endpoint.Auth != nil {
		if !sameClient(before.Endpoint, after.Endpoint) {
			return missingSecret("endpoint.auth.client_secret is required again, because the host of the endpoint, the token_url or the client_id changes")
		}
		given.ClientSecret = before.Credentials.ClientSecret
	}
	if given.PrivateKey == "" && identity != nil && identity.Certificate != "" {
		given.PrivateKey = before.Credentials.PrivateKey
		if before.Endpoint.TLS != nil && identity.Certificate == before.Endpoint.TLS.Certificate {
			now = time.Time{}
		}
	}
	after.Credentials = given
	return checkCredentials(after, now)
}

func sameClient(before, after sluice.Endpoint) bool {
	return before.Auth.TokenURL == after.Auth.TokenURL && before.Auth.ClientID == after.Auth.ClientID && origin(before.URL) == origin(after.URL)
}

func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Scheme + "://" + u.Host
}

// sameCredentials reports whether a request leaves out the credentials or has those of the
// subscription.
func sameCredentials(given sluice.Endpoint, sub *sluice.Subscription) bool {
	wanted := takeCredentials(&given)
	secret := wanted.ClientSecret == "" || hmac.Equal([]byte(wanted.ClientSecret), []byte(sub.Credentials.ClientSecret))
	key := wanted.PrivateKey == "" || hmac.Equal([]byte(wanted.PrivateKey), []byte(sub.Credentials.PrivateKey))
	return secret && key
}
