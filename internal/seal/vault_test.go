package seal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/seal"
)

var here = seal.Place("subscriptions", "orders", "secret")

func newKey(tb testing.TB) []byte {
	tb.Helper()
	raw, err := seal.NewKey()
	require.NoError(tb, err)
	require.Len(tb, raw, seal.KeyBytes)
	return raw
}

func ring(tb testing.TB, keys ...[]byte) *seal.Ring {
	tb.Helper()
	r, err := seal.New(keys...)
	require.NoError(tb, err)
	return r
}

func TestSeal_OpensInItsPlace(t *testing.T) {
	t.Parallel()
	raw := newKey(t)
	r := ring(t, raw)
	for _, plain := range []string{"", "a", strings.Repeat("long ", 1000)} {
		text := r.Seal([]byte(plain), here)
		require.True(t, strings.HasPrefix(text, "enc1."+seal.ID(raw)+"."), text)
		require.Equal(t, seal.ID(raw), seal.KeyOf(text))
		require.NotEqual(t, text, r.Seal([]byte(plain), here), "no two nonces are the same")
		got, err := r.Open(text, here)
		require.NoError(t, err)
		require.Equal(t, plain, string(got))
	}
}

func TestSeal_RefusesAnotherPlace(t *testing.T) {
	t.Parallel()
	r := ring(t, newKey(t))
	text := r.Seal([]byte("secret"), here)
	for _, place := range []string{
		seal.Place("subscriptions", "invoices", "secret"),
		seal.Place("keys", "orders", "secret"),
		seal.Place("subscriptions", "orders", "header"),
		seal.Place("subscriptions", "orderss", "ecret"),
		seal.Place("subscriptions", "orders"), "",
	} {
		_, err := r.Open(text, place)
		require.ErrorIs(t, err, seal.ErrTampered, place)
	}
}

func TestSeal_RefusesChangedText(t *testing.T) {
	t.Parallel()
	r := ring(t, newKey(t))
	text := r.Seal([]byte("secret"), here)
	for at := range text {
		changed := []byte(text)
		changed[at] ^= 1
		_, err := r.Open(string(changed), here)
		require.Error(t, err, "byte %d", at)
		require.NotContains(t, err.Error(), "secret ")
	}
	for _, cut := range []string{"", "enc1", "enc1.", "secret", "enc2" + text[4:], text[:len(text)-4], text + "AAAA", "enc1." + r.First() + ".", "enc1." + r.First()} {
		_, err := r.Open(cut, here)
		require.Error(t, err, cut)
	}
}

func TestRing_FirstKeySealsAndAllOpen(t *testing.T) {
	t.Parallel()
	first, second := newKey(t), newKey(t)
	before := ring(t, first).Seal([]byte("x"), here)
	both := ring(t, second, first, second)
	require.Equal(t, []string{seal.ID(second), seal.ID(first)}, both.IDs())
	got, err := both.Open(before, here)
	require.NoError(t, err)
	require.Equal(t, "x", string(got))
	require.Equal(t, seal.ID(second), seal.KeyOf(both.Seal([]byte("x"), here)))
	require.Equal(t, seal.ID(second), both.First())

	_, err = ring(t, second).Open(before, here)
	var unknown *seal.UnknownKeyError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, seal.ID(first), unknown.ID)
	require.Contains(t, err.Error(), seal.ID(first))
}

func TestKeys_RefusesTheWrongLength(t *testing.T) {
	t.Parallel()
	for _, keys := range [][][]byte{nil, {nil}, {make([]byte, 16)}, {newKey(t), make([]byte, 33)}} {
		_, err := seal.New(keys...)
		require.Error(t, err)
	}
}

func TestKeys_AreReadFromAListAndAFile(t *testing.T) {
	t.Parallel()
	a, b := newKey(t), newKey(t)
	std, raw := base64.StdEncoding.EncodeToString(a), base64.RawURLEncoding.EncodeToString(b)
	keys, err := seal.ParseList(" " + std + ", " + raw + "\n")
	require.NoError(t, err)
	require.Equal(t, [][]byte{a, b}, keys)
	keys, err = seal.ParseFile("# the keys\n\n" + seal.Line(a, time.Unix(0, 0)) + "\n" + raw)
	require.NoError(t, err)
	require.Equal(t, [][]byte{a, b}, keys)
	require.Contains(t, seal.Line(a, time.Unix(0, 0)), "# key "+seal.ID(a)+", made 1970-01-01T00:00:00Z\n")

	for _, wrong := range []string{"", ",", std + ",", "hunter2hunter2hunter2", std[:20], "äöü"} {
		_, err := seal.ParseList(wrong)
		require.ErrorContains(t, err, "openssl rand -base64 32")
		if len(wrong) >= 8 { // fewer random letters may be in any text
			require.NotContains(t, err.Error(), wrong[:8], "nothing of a key is in an error")
		}
	}
	_, err = seal.ParseFile("# none\n")
	require.ErrorContains(t, err, "no key")
	_, err = seal.ParseFile(std + "\n\nnonsense\n")
	require.ErrorContains(t, err, "line 3")
}

func TestRing_PrintsItsKeyIDs(t *testing.T) {
	t.Parallel()
	raw := newKey(t)
	r := ring(t, raw)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", slog.Any("ring", r))
	text := fmt.Sprintf("%v %+v %#v %s %q %x", r, r, r, r, r, struct{ R *seal.Ring }{r}) + log.String()
	require.Contains(t, text, seal.ID(raw))
	for _, secret := range []string{string(raw), hex.EncodeToString(raw), base64.StdEncoding.EncodeToString(raw), fmt.Sprintf("%d", raw)} {
		require.NotContains(t, text, strings.Trim(secret, "[]"))
	}
}

func FuzzOpen(f *testing.F) {
	r := ring(f, bytes.Repeat([]byte{1}, seal.KeyBytes))
	f.Add(r.Seal([]byte("x"), here), here)
	f.Add("enc1.a.b", "")
	f.Fuzz(func(t *testing.T, text, place string) {
		plain, err := r.Open(text, place)
		if err == nil && seal.KeyOf(text) != r.First() {
			t.Fatalf("%q was opened as %q", text, plain)
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	r := ring(b, newKey(b))
	text := r.Seal([]byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="), here)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Open(text, here); err != nil {
			b.Fatal(err)
		}
	}
}
