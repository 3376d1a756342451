package certreload_test

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/certreload"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// files are a certificate and a key that others take the place of.
type files struct {
	authority *natstest.Authority
	cert, key string
}

func newFiles(t *testing.T) *files {
	t.Helper()
	f := &files{authority: natstest.NewAuthority(t), cert: filepath.Join(t.TempDir(), "tls.crt")}
	f.key = filepath.Join(filepath.Dir(f.cert), "tls.key")
	f.renew(t, "first")
	return f
}

// renew writes another certificate and its key, and returns what is in the certificate.
func (f *files) renew(t *testing.T, name string) []byte {
	t.Helper()
	cert, key := f.authority.Issue(t, name)
	copyFile(t, cert, f.cert)
	copyFile(t, key, f.key)
	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	return pair.Certificate[0]
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, 0o600))
}

// reloading returns files and their reloader.
func reloading(t *testing.T) (*files, *certreload.Reloader) {
	t.Helper()
	f := newFiles(t)
	r, err := certreload.New(f.cert, f.key)
	require.NoError(t, err)
	return f, r
}

func shown(t *testing.T, r *certreload.Reloader) []byte {
	t.Helper()
	pair, err := r.GetCertificate(nil)
	require.NoError(t, err)
	client, err := r.GetClientCertificate(nil)
	require.NoError(t, err)
	require.Same(t, pair, client)
	return pair.Certificate[0]
}

func TestCertificate_RenewedOneIsServedASecondLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, r := reloading(t)
		before := shown(t, r)
		second := f.renew(t, "second")
		require.Equal(t, before, shown(t, r), "the files are not looked at for every handshake")
		<-time.After(time.Second)
		require.Equal(t, second, shown(t, r))
		require.NotEqual(t, before, second)
	})
}

func TestCertificate_WaitsForItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, r := reloading(t)
		var complaints []error
		r.Complain = func(err error) { complaints = append(complaints, err) }
		before := shown(t, r)
		cert, key := f.authority.Issue(t, "second")
		copyFile(t, cert, f.cert)
		for range 3 {
			<-time.After(time.Second)
			require.Equal(t, before, shown(t, r))
		}
		require.Len(t, complaints, 1, "once for each state of the files")
		require.ErrorContains(t, complaints[0], "stays in use")
		require.ErrorContains(t, complaints[0], "private key does not match public key")
		copyFile(t, key, f.key)
		<-time.After(time.Second)
		require.NotEqual(t, before, shown(t, r))
		require.Len(t, complaints, 1)
	})
}

func TestFiles_RemovalChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, r := reloading(t)
		before := shown(t, r)
		require.NoError(t, os.Remove(f.key))
		<-time.After(time.Second)
		require.Equal(t, before, shown(t, r), "the callback for errors may be nil")
		second := f.renew(t, "second")
		<-time.After(time.Second)
		require.Equal(t, second, shown(t, r))
	})
}

func TestAuthorities_FollowTheirFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, other := natstest.NewAuthority(t), natstest.NewAuthority(t)
		file := filepath.Join(t.TempDir(), "ca.pem")
		copyFile(t, one.File, file)
		a, err := certreload.NewAuthorities(file)
		require.NoError(t, err)
		var complaints []error
		a.Complain = func(err error) { complaints = append(complaints, err) }
		before := a.Pool()
		require.NoError(t, os.WriteFile(file, []byte("nothing\n"), 0o600))
		<-time.After(time.Second)
		require.True(t, before.Equal(a.Pool()))
		require.Len(t, complaints, 1)
		copyFile(t, other.File, file)
		<-time.After(time.Second)
		require.False(t, before.Equal(a.Pool()))
	})
}

func TestStart_UnreadableFileIsAnError(t *testing.T) {
	t.Parallel()
	f := newFiles(t)
	none := filepath.Join(t.TempDir(), "none.pem")
	_, err := certreload.New(none, f.key)
	require.ErrorContains(t, err, "none.pem")
	_, err = certreload.New(f.key, f.cert)
	require.ErrorContains(t, err, "tls.crt")
	_, err = certreload.NewAuthorities(none)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = certreload.NewAuthorities(f.key)
	require.ErrorContains(t, err, "no certificate")
	key, err := os.ReadFile(f.key)
	require.NoError(t, err)
	_, err = certreload.New(f.cert, f.cert)
	require.NotContains(t, err.Error(), string(bytes.TrimSpace(key)), "no key is told")
}
