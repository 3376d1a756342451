package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"golang.org/x/net/netutil"

	"github.com/sluice-io/sluice/internal/certreload"
	"github.com/sluice-io/sluice/internal/shutdown"
)

// maxHeader limits a request's header, in bytes.
const maxHeader = 64 << 10

// maxStreams limits the concurrent requests of one HTTP/2 connection.
const maxStreams = 100

// web returns the HTTP server. Its timeouts and limits disconnect clients that are slow, silent or
// too verbose.
func (s *server) web(ctx context.Context) *http.Server {
	limits := s.cfg.HTTP.Timeouts
	return &http.Server{
		Handler:           s.api,
		TLSConfig:         s.tls,
		ReadHeaderTimeout: limits.Header.Std(),
		ReadTimeout:       limits.Request.Std(),
		WriteTimeout:      limits.Answer.Std(),
		IdleTimeout:       limits.Idle.Std(),
		MaxHeaderBytes:    maxHeader,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		BaseContext:       func(net.Listener) context.Context { return shutdown.Lasting(ctx) },
		ConnState:         s.countConnections,
		ErrorLog:          slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug),
	}
}

// accept serves until the server is shut down. Connections beyond the limit wait unaccepted.
func (s *server) accept(web *http.Server) error {
	limited := netutil.LimitListener(bounded{s.listener}, s.cfg.HTTP.MaxConnections)
	if s.tls != nil {
		return web.ServeTLS(limited, "", "") // the files are in the configuration
	}
	return web.Serve(limited)
}

// warnPlain warns of an API that is exposed on a network without TLS. Behind a TLS proxy,
// http.public_url disables the warning.
func (s *server) warnPlain(ctx context.Context) {
	at, ok := s.listener.Addr().(*net.TCPAddr)
	if !ok || at.IP.IsLoopback() || s.tls != nil || strings.HasPrefix(s.cfg.HTTP.PublicURL, "https://") {
		return
	}
	s.opts.Log.LogAttrs(ctx, slog.LevelWarn, "the API uses plain HTTP on a network: tokens and events can be read in transit; set http.tls, or http.public_url to the https address of a proxy, or listen on 127.0.0.1",
		slog.String("address", at.String()))
}

func (s *server) countConnections(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.conns.Add(-1)
	case http.StateActive, http.StateIdle:
	}
}

// openTLS loads the certificate, if configured.
func (s *server) openTLS(ctx context.Context) error {
	wanted := s.cfg.HTTP.TLS
	if !wanted.On() {
		return nil
	}
	outliving := context.WithoutCancel(ctx)
	complain := func(err error) {
		// The previous one stays in use.
		s.opts.Log.ErrorContext(outliving, "certificate", slog.Any("error", err))
	}
	pair, err := certreload.New(wanted.Cert, wanted.Key)
	if err != nil {
		return fmt.Errorf("http.tls: %w", err)
	}
	pair.Complain = complain
	s.tls = &tls.Config{MinVersion: wanted.Oldest(), GetCertificate: pair.GetCertificate, NextProtos: []string{"h2", "http/1.1"}}
	if wanted.ClientCA == "" {
		return nil
	}
	authorities, err := certreload.NewAuthorities(wanted.ClientCA)
	if err != nil {
		return fmt.Errorf("http.tls.client_ca: %w", err)
	}
	authorities.Complain = complain
	s.tls.ClientAuth = tls.RequireAndVerifyClientCert
	s.tls.ClientCAs = authorities.Pool()
	base := s.tls.Clone()
	s.tls.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := base.Clone()
		now.ClientCAs = authorities.Pool()
		return now, nil
	}
	return nil
}

func (s *server) scheme() string {
	if s.tls != nil {
		return "https://"
	}
	return "http://"
}

// prefixes parses networks. The settings were validated.
func prefixes(cidrs []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	var errs []error
	for _, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(cidr)
		all, errs = append(all, prefix), append(errs, err)
	}
	return all, errors.Join(errs...)
}
