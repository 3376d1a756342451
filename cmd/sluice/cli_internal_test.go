package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/sluice-io/sluice/internal/terminal"

	"github.com/stretchr/testify/require"
)

func TestUnauthenticated_ErrorTellsTheRemedy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server, cert string
		err          error
		advice       string
	}{
		"an authority":                    {"https://e", "", x509.UnknownAuthorityError{}, "--ca"},
		"another name":                    {"https://e", "", x509.HostnameError{Host: "e", Certificate: &x509.Certificate{}}, "SLUICE_URL"},
		"no certificate":                  {"https://e", "", &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}, "--cert"},
		"no certificate, cut off":         {"https://e", "", syscall.EPIPE, "--cert"},
		"a certificate was shown":         {"https://e", "me.pem", syscall.EPIPE, ""},
		"it does not speak TLS":           {"http://e", "", syscall.ECONNRESET, ""},
		"no server answers":               {"https://e", "", syscall.ECONNREFUSED, ""},
		"it has nothing to do with that":  {"https://e", "", errors.New("no"), ""},
		"there is nothing to complain of": {"https://e", "", nil, ""},
	} {
		s := &terminal.Session{Flags: terminal.Flags{Server: c.server, Cert: c.cert}}
		if c.err == nil {
			require.NoError(t, s.WithAdvice(nil), name)
			continue
		}
		err := s.WithAdvice(fmt.Errorf("no answer: %w", c.err))
		require.ErrorIs(t, err, c.err, name)
		require.Contains(t, err.Error(), c.advice, name)
		require.Equal(t, c.advice != "", len(err.Error()) > len("no answer: "+c.err.Error()), name)
	}
}
