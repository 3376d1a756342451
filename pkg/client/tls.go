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

// TLS names the PEM files for https connections. Empty fields mean the system's authorities and no
// client certificate.
type TLS struct {
	CA   string // certificate authorities, instead of the system's
	Cert string // client certificate
	Key  string // private key of the client certificate
}

// UseTLS configures the client's TLS. Call it before the first request. Code InvalidRequest for
// invalid files.
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
		return errors.New("http.DefaultTransport was replaced; set Client.HTTP instead")
	}
	transport = transport.Clone()
	transport.TLSClientConfig = config
	c.HTTP = &http.Client{Transport: transport}
	return nil
}
