package client_test

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/client"
)

// ofEachMethod returns a call of each method, and of each way to send a request.
func ofEachMethod(ctx context.Context) map[string]func(*client.Client) error {
	return map[string]func(*client.Client) error{
		"GET":    func(c *client.Client) error { _, err := c.Namespace(ctx, "a"); return err },
		"HEAD":   func(c *client.Client) error { _, err := c.Stream(ctx, "a", "/s"); return err },
		"PUT":    func(c *client.Client) error { _, err := c.PutNamespace(ctx, "a", client.NamespaceSpec{}); return err },
		"POST":   func(c *client.Client) error { _, err := c.VerifyStorage(ctx); return err },
		"PATCH":  func(c *client.Client) error { _, err := c.PatchSubscription(ctx, "s", map[string]any{}, 0); return err },
		"DELETE": func(c *client.Client) error { return c.DeleteNamespace(ctx, "a") },
		"import": func(c *client.Client) error {
			_, err := c.ImportDirectory(ctx, "a", strings.NewReader(""), false)
			return err
		},
		"feed": func(c *client.Client) error {
			for _, err := range c.Feed(ctx, "a", client.FeedQuery{}) {
				return err
			}
			return nil
		},
	}
}

func TestClient_RedirectIsAnErrorForEveryMethod(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	moved := func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		status, err := strconv.Atoi(strings.Split(r.URL.Path, "/")[1])
		if err != nil {
			t.Error("followed to " + r.URL.Path)
			return
		}
		w.Header().Set("Location", "/login\u009b"+strings.Repeat("x", 1000))
		w.WriteHeader(status)
	}
	plain, secure := httptest.NewServer(http.HandlerFunc(moved)), httptest.NewTLSServer(http.HandlerFunc(moved))
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
	made := map[string]func(string) *client.Client{
		"New": func(path string) *client.Client { return client.New(plain.URL+path, "tok") },
		"UseTLS": func(path string) *client.Client {
			c := client.New(secure.URL+path, "tok")
			require.NoError(t, c.UseTLS(client.TLS{CA: authority}))
			return c
		},
		"own HTTP": func(path string) *client.Client {
			c := client.New(plain.URL+path, "tok")
			c.HTTP = &http.Client{}
			return c
		},
	}
	for how, of := range made {
		for name, call := range ofEachMethod(t.Context()) {
			for _, status := range []int{301, 302, 303, 307, 308} {
				c, before := of("/"+strconv.Itoa(status)), asked.Load()
				require.ErrorContains(t, call(c), `: it redirects to "/login\u009bxxx`, "%s %s %d", how, name, status)
				require.EqualValues(t, 1, asked.Load()-before, "%s %s %d", how, name, status)
				c.HTTP.CloseIdleConnections()
			}
		}
	}
}
