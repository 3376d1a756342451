package certs_test

import (
	"bytes"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/certs"
	"github.com/sluice-io/sluice/internal/natstest"
)

// files is a certificate in use: the places that an operator replaces.
type files struct{ cert, key string }

func newFiles(t *testing.T, authority *natstest.Authority, name string) files {
	t.Helper()
	dir := t.TempDir()
	f := files{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	cert, key := authority.Issue(t, name)
	f.replace(t, f.cert, cert)
	f.replace(t, f.key, key)
	return f
}

// replace puts a file in the place of another, as if a while had passed since the last time.
func (f files) replace(t *testing.T, place, by string) {
	t.Helper()
	was, err := os.Stat(place)
	data, err2 := os.ReadFile(by)
	require.NoError(t, err2)
	require.NoError(t, os.WriteFile(place, data, 0o600))
	if err == nil {
		at := was.ModTime().Add(time.Minute)
		require.NoError(t, os.Chtimes(place, at, at))
	}
}

func served(t *testing.T, r *certs.Reloader) string {
	t.Helper()
	pair, err := r.GetCertificate(nil)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	return leaf.Subject.CommonName
}

func TestACertificateThatWasReplacedIsServedWithinASecond(t *testing.T) {
	t.Parallel()
	authority := natstest.NewAuthority(t)
	f := newFiles(t, authority, "first")
	cert, key := authority.Issue(t, "second")
	synctest.Test(t, func(t *testing.T) {
		r, err := certs.New(f.cert, f.key)
		require.NoError(t, err)
		require.Equal(t, "first", served(t, r))
		f.replace(t, f.cert, cert)
		f.replace(t, f.key, key)
		<-time.After(999 * time.Millisecond)
		require.Equal(t, "first", served(t, r), "the files are looked at once a second at most")
		<-time.After(time.Millisecond)
		require.Equal(t, "second", served(t, r))
	})
}

func TestBrokenFilesKeepTheOldCertificateAndAreLoggedOnce(t *testing.T) {
	t.Parallel()
	authority := natstest.NewAuthority(t)
	f := newFiles(t, authority, "first")
	cert, key := authority.Issue(t, "second")
	synctest.Test(t, func(t *testing.T) {
		r, err := certs.New(f.cert, f.key)
		require.NoError(t, err)
		var log bytes.Buffer
		r.Log = slog.New(slog.NewTextHandler(&log, nil))
		again := func() string {
			<-time.After(time.Second)
			return served(t, r)
		}
		f.replace(t, f.cert, cert)
		require.Equal(t, "first", again(), "the key is still the old one's")
		require.Equal(t, "first", again())
		require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), log.String())

		require.NoError(t, os.Remove(f.key))
		require.Equal(t, "first", again())
		require.Equal(t, "first", again())
		require.Equal(t, 2, strings.Count(log.String(), "level=ERROR"), log.String())

		f.replace(t, f.key, key)
		require.Equal(t, "second", again())
		require.NotContains(t, log.String(), "PRIVATE")
	})
}

func TestFilesThatMakeNoCertificateAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	authority := natstest.NewAuthority(t)
	cert, key := authority.Issue(t, "one")
	_, other := authority.Issue(t, "two")
	for name, give := range map[string]files{
		"no certificate": {key, key}, "another key": {cert, other}, "no file": {cert, filepath.Join(t.TempDir(), "none.pem")},
	} {
		_, err := certs.New(give.cert, give.key)
		require.ErrorContains(t, err, "certificate", name)
	}
}
