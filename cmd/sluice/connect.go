package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/pkg/client"
)

// client returns a client of the server that the flags, the environment or the data directory name.
func (s *session) client() (*client.Client, error) {
	base, err := s.baseURL()
	if err != nil {
		return nil, err
	}
	token, err := s.token()
	if err != nil {
		return nil, err
	}
	return s.clientOf(base, token)
}

// clientOf returns a client of a server that believes whom the flags name.
func (s *session) clientOf(base, token string) (*client.Client, error) {
	c := client.New(base, token)
	if files := (client.TLS{CA: s.CA, Cert: s.Cert, Key: s.Key}); files != (client.TLS{}) {
		if err := c.UseTLS(files); err != nil {
			return nil, err
		}
	}
	c.HTTP.Transport = patient{cmp.Or(c.HTTP.Transport, http.DefaultTransport)}
	return c, nil
}

func (s *session) baseURL() (string, error) {
	if s.Server != "" {
		return s.Server, checkServer(s.Server)
	}
	dir, err := s.dataDir()
	if err != nil {
		return "", err
	}
	addresses, err := readAddresses(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("no server is running on %s; start one with sluice serve, or set SLUICE_URL and SLUICE_TOKEN", dir)
	}
	return addresses.HTTP, err
}

// checkServer returns a usage error unless the text can be a server's address.
func checkServer(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return usagef("--server or SLUICE_URL %q: write a URL such as http://127.0.0.1:8080", text)
	}
	return nil
}

// token returns the token to show. A server elsewhere is not shown the root token of one here.
func (s *session) token() (string, error) {
	if s.Token != "" || s.Server != "" {
		return s.Token, nil
	}
	dir, err := s.dataDir()
	if err != nil {
		return "", err
	}
	return readToken(dir)
}

func (s *session) dataDir() (string, error) {
	if s.Data != "" {
		return s.Data, nil
	}
	cfg, err := config.Load("", s.environ)
	if err != nil {
		return "", err
	}
	if cfg.Data == "" {
		return "", usagef("set --data or SLUICE_DATA: without HOME and XDG_DATA_HOME, the data directory has no default")
	}
	return cfg.Data, nil
}

// readAddresses returns where the server of a data directory can be reached.
func readAddresses(dir string) (app.Addresses, error) {
	var addresses app.Addresses
	file := filepath.Join(dir, app.AddressesFile)
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return addresses, fmt.Errorf("read the server's addresses: %w", err)
	}
	if err := json.Unmarshal(data, &addresses); err != nil {
		return addresses, fmt.Errorf("%s: %w", file, err)
	}
	return addresses, nil
}

// readToken returns the root token of the server of a data directory.
func readToken(dir string) (string, error) {
	data, err := os.ReadFile(filepath.Clean(filepath.Join(dir, app.RootTokenFile)))
	if err != nil {
		return "", fmt.Errorf("read the root token: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
