package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// TLS says in PEM files how a server over https is met. Empty: as the system does it, without a
// certificate of one's own.
type TLS struct {
	CA   string // authorities to believe, instead of the system's
	Cert string // the client's certificate
	Key  string // its private key
}

// UseTLS makes the client meet its server so. Call it before the first request. Code InvalidRequest
// for files that are not what they should be.
func (c *Client) UseTLS(files TLS) error {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if files.CA != "" {
		pem, err := os.ReadFile(filepath.Clean(files.CA))
		if err != nil {
			return fmt.Errorf("authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return sluice.Errorf(sluice.InvalidRequest, "%s has no certificate in PEM", files.CA)
		}
	}
	if files.Cert != "" || files.Key != "" {
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			return fmt.Errorf("certificate and key of the client: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return errors.New("the program has replaced http.DefaultTransport; set Client.HTTP instead")
	}
	transport = transport.Clone()
	transport.TLSClientConfig = config
	c.HTTP = &http.Client{Transport: transport}
	return nil
}
