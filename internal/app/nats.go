package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/certs"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/natsstore"
)

// startNATS runs the embedded server.
func (s *server) startNATS(ctx context.Context) (err error) {
	n := s.cfg.NATS
	opts := natsd.Options{
		StoreDir: filepath.Join(s.cfg.Data, "nats"), Sync: n.Sync, MaxStore: n.MaxStore, Log: s.opts.Log,
		DontListen: n.Listen == "none", Operator: n.Operator, Accounts: n.AccountJWTs,
	}
	for _, u := range n.Users {
		opts.Users = append(opts.Users, natsd.User(u))
	}
	if !opts.DontListen {
		host, port, err := net.SplitHostPort(n.Listen)
		if err != nil {
			return fmt.Errorf("nats.listen: %w", err)
		}
		opts.Host = host
		if opts.Port, err = strconv.Atoi(port); err != nil {
			return fmt.Errorf("nats.listen: %w", err)
		}
	}
	if opts.TLS, err = serverTLS(n.ServerTLS, s.opts.Log); err != nil {
		return fmt.Errorf("nats.server_tls: %w", err)
	}
	s.nats, err = natsd.Start(ctx, opts)
	if errors.Is(err, syscall.EADDRINUSE) {
		return listenError("nats.listen", n.Listen, "--nats-listen", err)
	}
	return err
}

// serverTLS returns what clients are met with, nil if with nothing. The certificate is read again
// when its files change; the authorities are not.
func serverTLS(c config.ServerTLS, log *slog.Logger) (*tls.Config, error) {
	if c.Cert == "" {
		return nil, nil //nolint:nilnil // TLS is not wanted
	}
	reloader, err := certs.New(c.Cert, c.Key)
	if err != nil {
		return nil, err
	}
	reloader.Complain = func(err error) { log.Error("nats.server_tls", slog.Any("error", err)) }
	settings := &tls.Config{GetCertificate: reloader.GetCertificate, MinVersion: tls.VersionTLS12}
	if c.ClientCA == "" {
		return settings, nil
	}
	pem, err := os.ReadFile(filepath.Clean(c.ClientCA))
	if err != nil {
		return nil, fmt.Errorf("client_ca: %w", err)
	}
	settings.ClientCAs, settings.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !settings.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("client_ca: there is no certificate in %s", c.ClientCA)
	}
	return settings, nil
}

// loginTo has the store log in to the embedded server.
func (s *server) loginTo(opts *natsstore.Options) {
	opts.Conn = s.nats
	opts.NKey, opts.Sign = s.nats.Login()
}
