package subscriptioncmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// endpointFlags are the settings of endpoint.auth and endpoint.tls.
type endpointFlags struct {
	TokenURL     *string  `name:"oauth-token-url" help:"Token endpoint (OAuth 2 client credentials): requests have a bearer token." placeholder:"URL"`
	ClientID     *string  `name:"oauth-client-id" help:"Client of the token endpoint." placeholder:"ID"`
	ClientSecret string   `name:"oauth-client-secret-file" help:"File with the client's secret." type:"path" placeholder:"FILE"`
	Scopes       []string `name:"oauth-scope" help:"Scope of the token; repeatable." placeholder:"SCOPE"`
	Audience     *string  `name:"oauth-audience" help:"Audience of the token." placeholder:"NAME"`
	Certificate  string   `name:"endpoint-cert" help:"File with the client certificate for the endpoint, in PEM." type:"path" placeholder:"FILE"`
	PrivateKey   string   `name:"endpoint-key" help:"File with its private key." type:"path" placeholder:"FILE"`
	CA           string   `name:"endpoint-ca" help:"File with the authorities of the endpoint's certificate, in place of the system's." type:"path" placeholder:"FILE"`
}

// add adds the flags to the JSON of a subscription. Secrets and keys come from files, so that they
// are not in the list of processes; surrounding white space is removed. It returns an error if a
// file cannot be read. An endpoint.auth without a type, also in --file, becomes one of OAuth 2, the
// only type that exists.
func (f *endpointFlags) add(m spec) error {
	for name, text := range map[string]*string{"token_url": f.TokenURL, "client_id": f.ClientID, "audience": f.Audience} {
		if text != nil {
			m.set(*text, "endpoint", "auth", name)
		}
	}
	if len(f.Scopes) > 0 {
		m.set(f.Scopes, "endpoint", "auth", "scopes")
	}
	for place, file := range map[string]string{
		"auth.client_secret": f.ClientSecret, "tls.certificate": f.Certificate, "tls.private_key": f.PrivateKey, "tls.ca": f.CA,
	} {
		if file == "" {
			continue
		}
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return fmt.Errorf("read endpoint.%s: %w", place, err)
		}
		m.set(strings.TrimSpace(string(text)), append([]string{"endpoint"}, strings.Split(place, ".")...)...)
	}
	if endpoint, ok := m["endpoint"].(map[string]any); ok {
		if auth, ok := endpoint["auth"].(map[string]any); ok && auth["type"] == nil {
			auth["type"] = sluice.AuthOAuth2
		}
	}
	return nil
}
