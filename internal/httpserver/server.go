// Package httpserver serves a handler over HTTP or HTTPS, with limits for connections, sizes and
// times.
package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/net/netutil"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/certreload"
	"github.com/sluice-io/sluice/internal/shutdown"
)

// maxHeader limits a request's header, in bytes.
const maxHeader = 64 << 10

// maxStreams limits the concurrent requests of one HTTP/2 connection.
const maxStreams = 100

// Server is a listening HTTP server. The system queues connections from Listen on; the server
// accepts them from Start on.
type Server struct {
	cfg      config.HTTP
	log      *slog.Logger
	listener net.Listener
	tls      *tls.Config  // nil: plain HTTP
	conns    atomic.Int64 // open connections

	web   *http.Server // set by Start
	ended chan error   // why the server stopped accepting connections, then closed

	stopping context.Context //nolint:containedctx // ends when waiting requests should end
	stop     context.CancelFunc
}

// Listen opens the address of http.listen. Close closes it.
func Listen(ctx context.Context, cfg config.HTTP, log *slog.Logger) (*Server, error) {
	listener, err := listen(ctx, cfg.Listen)
	if err != nil {
		return nil, config.ListenError("http.listen", cfg.Listen, "--http", err)
	}
	s := &Server{cfg: cfg, log: log, listener: listener}
	s.stopping, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	return s, nil
}

// listen opens an address. It retries for a second, because a server that was just killed may still
// hold the address: a process that it forked to start a program has a copy of the listener until
// the program starts.
func listen(ctx context.Context, address string) (net.Listener, error) {
	return backoff.RetryWithData(func() (net.Listener, error) {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			err = backoff.Permanent(err)
		}
		return listener, err
	}, backoff.WithContext(backoff.NewExponentialBackOff(backoff.WithInitialInterval(10*time.Millisecond), backoff.WithMaxInterval(100*time.Millisecond), backoff.WithMaxElapsedTime(time.Second)), ctx))
}

// Close closes the address and all connections.
func (s *Server) Close() (err error) {
	s.stop()
	if s.web != nil {
		err = unlessClosed(s.web.Close())
		for range s.ended { // until it is closed
		}
	}
	return errors.Join(err, unlessClosed(s.listener.Close()))
}

func unlessClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Stopping returns a context that ends when waiting requests should end.
func (s *Server) Stopping() context.Context { return s.stopping }

// Connections returns the number of open connections.
func (s *Server) Connections() int64 { return s.conns.Load() }

// TLS reports whether the server speaks HTTPS.
func (s *Server) TLS() bool { return s.tls != nil }

// URL returns the server's URL by its address.
func (s *Server) URL() string {
	if s.tls != nil {
		return "https://" + s.listener.Addr().String()
	}
	return "http://" + s.listener.Addr().String()
}

// Start loads the certificate, if one is configured, and begins to serve the handler. ctx carries
// the deadline of the shutdown. Call it once.
func (s *Server) Start(ctx context.Context, handler http.Handler) error {
	if err := s.loadTLS(ctx); err != nil {
		return err
	}
	s.web, s.ended = s.server(ctx, handler), make(chan error, 1)
	go func() { // ended by Shutdown or Close
		defer close(s.ended)
		s.ended <- s.accept()
	}()
	return nil
}

// Serve waits until ctx is done, and then completes the requests in flight. Start must precede it.
func (s *Server) Serve(ctx context.Context) error {
	select {
	case err := <-s.ended:
		return err
	case <-ctx.Done():
	}
	s.stop()
	err := s.web.Shutdown(shutdown.Lasting(ctx))
	if errors.Is(err, context.Canceled) { // requests are in flight for which the store does not respond
		shutdown.Left(ctx, "requests", 1)
		err = s.web.Close()
	}
	if served := <-s.ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// server returns the HTTP server. Its timeouts and limits disconnect clients that are slow, silent or
// too verbose.
func (s *Server) server(ctx context.Context, handler http.Handler) *http.Server {
	limits := s.cfg.Timeouts
	return &http.Server{
		Handler:           handler,
		TLSConfig:         s.tls,
		ReadHeaderTimeout: limits.Header.Std(),
		ReadTimeout:       limits.Request.Std(),
		WriteTimeout:      limits.Answer.Std(),
		IdleTimeout:       limits.Idle.Std(),
		MaxHeaderBytes:    maxHeader,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		BaseContext:       func(net.Listener) context.Context { return shutdown.Lasting(ctx) },
		ConnState:         s.countConnections,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// accept serves until the server is shut down. Connections beyond the limit wait unaccepted.
func (s *Server) accept() error {
	limited := netutil.LimitListener(bounded{s.listener}, s.cfg.MaxConnections)
	if s.tls != nil {
		return s.web.ServeTLS(limited, "", "") // the files are in the configuration
	}
	return s.web.Serve(limited)
}

// WarnPlain warns of an API that is exposed on a network without TLS. Behind a TLS proxy,
// http.public_url disables the warning.
func (s *Server) WarnPlain(ctx context.Context) {
	at, ok := s.listener.Addr().(*net.TCPAddr)
	if !ok || at.IP.IsLoopback() || s.tls != nil || strings.HasPrefix(s.cfg.PublicURL, "https://") {
		return
	}
	s.log.LogAttrs(ctx, slog.LevelWarn, "the API uses plain HTTP on a network: tokens and events can be read in transit; set http.tls, or http.public_url to the https address of a proxy, or listen on 127.0.0.1",
		slog.String("address", at.String()))
}

func (s *Server) countConnections(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.conns.Add(-1)
	case http.StateActive, http.StateIdle:
	}
}

// loadTLS loads the certificate, if one is configured.
func (s *Server) loadTLS(ctx context.Context) error {
	wanted := s.cfg.TLS
	if !wanted.On() {
		return nil
	}
	outliving := context.WithoutCancel(ctx)
	complain := func(err error) {
		// The previous one stays in use.
		s.log.ErrorContext(outliving, "certificate", slog.Any("error", err))
	}
	settings, err := certreload.Server(wanted.Cert, wanted.Key, complain)
	if err != nil {
		return fmt.Errorf("http.tls: %w", err)
	}
	settings.MinVersion, settings.NextProtos = wanted.Oldest(), []string{"h2", "http/1.1"}
	if wanted.ClientCA != "" {
		if err := certreload.RequireClients(settings, wanted.ClientCA, complain); err != nil {
			return fmt.Errorf("http.tls.client_ca: %w", err)
		}
	}
	s.tls = settings
	return nil
}
