package e2e_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// overTLS is a server whose certificate lies where it can be replaced.
type overTLS struct {
	*running

	authority *natstest.Authority
	cert, key string
}

func startTLS(t *testing.T, change func(*overTLS, *config.Config)) *overTLS {
	t.Helper()
	dir := t.TempDir()
	o := &overTLS{authority: natstest.NewAuthority(t), cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key")}
	o.renew(t, "first")
	o.running = start(t, t.TempDir(), func(c *config.Config) {
		c.HTTP.TLS.Cert, c.HTTP.TLS.Key = o.cert, o.key
		if change != nil {
			change(o, c)
		}
	})
	o.api = client.New(o.at.HTTP, o.token)
	require.NoError(t, o.api.UseTLS(client.TLS{CA: o.authority.File}))
	t.Cleanup(o.api.HTTP.CloseIdleConnections)
	return o
}

// renew puts another certificate in the place of the one that is there.
func (o *overTLS) renew(t *testing.T, name string) {
	t.Helper()
	cert, key := o.authority.Issue(t, name)
	for from, to := range map[string]string{cert: o.cert, key: o.key} {
		data, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, data, 0o600))
	}
}

// handshake returns what a new connection agrees on.
func (o *overTLS) handshake(ctx context.Context, t *testing.T, change func(*tls.Config)) (tls.ConnectionState, error) {
	t.Helper()
	u, err := url.Parse(o.at.HTTP)
	require.NoError(t, err)
	cfg := &tls.Config{InsecureSkipVerify: true}
	if change != nil {
		change(cfg)
	}
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer func() { require.NoError(t, conn.Close()) }()
	return conn.(*tls.Conn).ConnectionState(), nil
}

func TestTLS_ServesTheAPI(t *testing.T) {
	t.Parallel()
	o := startTLS(t, nil)
	require.True(t, strings.HasPrefix(o.at.HTTP, "https://"))
	data, err := os.ReadFile(filepath.Join(o.dir, datadir.AddressesFile))
	require.NoError(t, err)
	var written datadir.Addresses
	require.NoError(t, json.Unmarshal(data, &written))
	require.Equal(t, o.at, written)
	a := o.must(t, http.StatusOK, "GET /v1/capabilities", "")
	require.Equal(t, "max-age=31536000", a.header.Get("Strict-Transport-Security"))
	_, err = client.New(o.at.HTTP, o.token).Namespaces(t.Context(), "")
	require.ErrorContains(t, err, "unknown authority", "who does not know the authority does not believe it")
	plain := &running{api: o.api, at: datadir.Addresses{HTTP: "http" + strings.TrimPrefix(o.at.HTTP, "https")}}
	plain.must(t, http.StatusBadRequest, "GET /v1/capabilities", "")

	agreed, err := o.handshake(t.Context(), t, func(c *tls.Config) { c.NextProtos = []string{"h2"} })
	require.NoError(t, err)
	require.Equal(t, uint16(tls.VersionTLS13), agreed.Version, "the newest is preferred")
	require.Equal(t, "h2", agreed.NegotiatedProtocol)
	_, err = o.handshake(t.Context(), t, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 })
	require.NoError(t, err)
	_, err = o.handshake(t.Context(), t, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 })
	require.ErrorContains(t, err, "protocol version")
}

func TestTLS_MayRequireVersion13(t *testing.T) {
	t.Parallel()
	o := startTLS(t, func(_ *overTLS, c *config.Config) { c.HTTP.TLS.MinVersion = "1.3" })
	_, err := o.handshake(t.Context(), t, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 })
	require.ErrorContains(t, err, "protocol version")
	_, err = o.handshake(t.Context(), t, nil)
	require.NoError(t, err)
}

func TestTLS_RenewedCertificateNeedsNoRestart(t *testing.T) {
	t.Parallel()
	o := startTLS(t, nil)
	name := func() string {
		agreed, err := o.handshake(t.Context(), t, nil)
		require.NoError(t, err)
		return agreed.PeerCertificates[0].Subject.CommonName
	}
	require.Equal(t, "first", name())
	require.NoError(t, os.WriteFile(o.key, []byte("half of it"), 0o600))
	o.must(t, http.StatusOK, "GET /v1/capabilities", "")
	o.renew(t, "second")
	eventually(t, func() bool { return name() == "second" }, "the new certificate is shown")
	o.must(t, http.StatusOK, "GET /v1/capabilities", "")
}

func TestTLS_MayRequireClientCertificates(t *testing.T) {
	t.Parallel()
	o := startTLS(t, func(o *overTLS, c *config.Config) { c.HTTP.TLS.ClientCA = o.authority.File })
	_, err := o.api.Namespaces(t.Context(), "")
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err), "without a certificate there is no answer")
	stranger := natstest.NewAuthority(t)
	for by, want := range map[*natstest.Authority]sluice.Code{stranger: sluice.Unavailable, o.authority: sluice.CodeOf(nil)} {
		cert, key := by.Issue(t, "client")
		api := client.New(o.at.HTTP, o.token)
		require.NoError(t, api.UseTLS(client.TLS{CA: o.authority.File, Cert: cert, Key: key}))
		_, err := api.Namespaces(t.Context(), "")
		api.HTTP.CloseIdleConnections()
		require.Equal(t, want, sluice.CodeOf(err))
	}
}

func TestTLS_UnreadableCertificateEndsTheStart(t *testing.T) {
	t.Parallel()
	authority := natstest.NewAuthority(t)
	cert, key := authority.Issue(t, "server")
	none := filepath.Join(t.TempDir(), "none.pem")
	for _, tt := range []struct {
		files config.HTTPTLS
		says  string
	}{
		{config.HTTPTLS{Cert: none, Key: key}, "http.tls: open " + none},
		{config.HTTPTLS{Cert: cert, Key: cert}, "http.tls"},
		{config.HTTPTLS{Cert: cert, Key: key, ClientCA: key}, "http.tls.client_ca"},
	} {
		cfg := config.Default()
		cfg.NATS.Prefix = jsNames(t).Prefix()
		cfg.Data, cfg.HTTP.Listen, cfg.NATS.Listen = t.TempDir(), "127.0.0.1:0", "none"
		tt.files.MinVersion = "1.2"
		cfg.HTTP.TLS = tt.files
		require.ErrorContains(t, app.Run(t.Context(), cfg, app.Options{}), tt.says)
	}
}

func TestSlowClient_WithoutTLSHandshakeIsCutOff(t *testing.T) {
	t.Parallel()
	o := startTLS(t, func(_ *overTLS, c *config.Config) { c.HTTP.Timeouts.Header = sluice.Duration(2 * time.Second) })
	silent, half := o.raw(t), o.raw(t)
	_, err := half.Write([]byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01}) // the beginning of a ClientHello
	require.NoError(t, err)
	require.Empty(t, rest(t, silent))
	rest(t, half)
	o.must(t, http.StatusOK, "GET /v1/capabilities", "")
}
