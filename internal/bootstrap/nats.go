package bootstrap

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/certreload"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/streams"
)

// startNATS runs the embedded server.
func (b *Base) startNATS(ctx context.Context) (err error) {
	n := b.cfg.NATS
	opts := natsd.Options{
		StoreDir: datadir.NATS(b.cfg.Data), Names: streams.Prefixed(n.Prefix), Sync: n.Sync, MaxStore: n.MaxStore, Log: b.opts.Log,
		DontListen: n.Listen == "none", Operator: n.Operator, Accounts: n.AccountJWTs,
	}
	for _, u := range n.Users {
		opts.Users = append(opts.Users, natsd.User(u))
	}
	if opts.Inspector, err = b.inspector(); err != nil {
		return err
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
	if opts.TLS, err = serverTLS(n.ServerTLS, b.opts.Log); err != nil {
		return fmt.Errorf("nats.server_tls: %w", err)
	}
	b.NATS, err = natsd.Start(ctx, opts)
	if errors.Is(err, syscall.EADDRINUSE) {
		return config.ListenError("nats.listen", n.Listen, "--nats-listen", err)
	}
	if err == nil && opts.Inspector != nil && opts.Inspector.NKey == "" {
		b.opts.Log.WarnContext(ctx, "NATS requires no login: any client can publish events and read the store", slog.String("nats", b.NATS.ClientURL()))
	}
	return err
}

// serverTLS returns the TLS configuration for clients, nil without TLS. The certificate is reloaded
// when its files change; the authorities are not.
func serverTLS(c config.ServerTLS, log *slog.Logger) (*tls.Config, error) {
	if c.Cert == "" {
		return nil, nil //nolint:nilnil // TLS is not wanted
	}
	settings, err := certreload.Server(c.Cert, c.Key, func(err error) { log.Error("nats.server_tls", slog.Any("error", err)) })
	if err != nil || c.ClientCA == "" {
		return settings, err
	}
	authorities, err := certreload.NewAuthorities(c.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("client_ca: %w", err)
	}
	settings.ClientCAs, settings.ClientAuth = authorities.Pool(), tls.RequireAndVerifyClientCert
	return settings, nil
}

// inspector returns the login for users and programs of this machine; nil if users are named or
// there is no listener.
func (b *Base) inspector() (*natsd.Inspector, error) {
	n := b.cfg.NATS
	if n.Guarded() || n.Listen == "none" {
		return nil, nil //nolint:nilnil // there is none
	}
	in := &natsd.Inspector{Trusted: n.TrustedSubjects}
	if b.cfg.Dev || n.AllowAnonymous {
		return in, nil
	}
	seed, file, err := datadir.NATSLogin(b.cfg.Data, natsd.NewLogin)
	if err != nil {
		return nil, err
	}
	if in.NKey, err = natsd.PublicLogin(seed); err != nil {
		return nil, fmt.Errorf("%s: %w; remove it to get a new one", file, err)
	}
	return in, nil
}
