package certreload

import "crypto/tls"

// Server returns the TLS configuration of a server with a certificate that is reloaded, for TLS 1.2
// and later. complain is called with the reason why changed files are not used.
func Server(cert, key string, complain func(error)) (*tls.Config, error) {
	pair, err := New(cert, key)
	if err != nil {
		return nil, err
	}
	pair.Complain = complain
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.GetCertificate}, nil
}

// RequireClients makes a server require client certificates that are signed by the authorities in a
// file, which is reloaded. Call it when settings are otherwise complete.
func RequireClients(settings *tls.Config, authorities string, complain func(error)) error {
	trusted, err := NewAuthorities(authorities)
	if err != nil {
		return err
	}
	trusted.Complain = complain
	settings.ClientAuth = tls.RequireAndVerifyClientCert
	settings.ClientCAs = trusted.Pool()
	base := settings.Clone()
	settings.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := base.Clone()
		now.ClientCAs = trusted.Pool()
		return now, nil
	}
	return nil
}
