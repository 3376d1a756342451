package terminal

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
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/pkg/client"
)

// Client returns a client of the server that the flags, the environment or the data directory name.
// It returns a usage error if the address is invalid. It sends no request.
func (s *Session) Client() (*client.Client, error) {
	base, err := s.Address()
	if err != nil {
		return nil, err
	}
	token, err := s.BearerToken()
	if err != nil {
		return nil, err
	}
	return s.ClientOf(base, token)
}

// ClientOf returns a client of a server that trusts the authorities in the flags. A change in
// flight survives an interrupt for a while (see patient).
func (s *Session) ClientOf(base, token string) (*client.Client, error) {
	c := client.New(base, token)
	if files := (client.TLS{CA: s.CA, Cert: s.Cert, Key: s.Key}); files != (client.TLS{}) {
		if err := c.UseTLS(files); err != nil {
			return nil, err
		}
	}
	c.HTTP.Transport = patient{cmp.Or(c.HTTP.Transport, http.DefaultTransport)}
	return c, nil
}

// Address returns the URL of the server that the flags, the environment or the data directory name.
// The order is: the flag or the environment, then the file of the server that runs on the data
// directory.
func (s *Session) Address() (string, error) {
	if s.Server != "" {
		return s.Server, CheckServer(s.Server)
	}
	dir, err := s.DataDir()
	if err != nil {
		return "", err
	}
	addresses, err := ReadAddresses(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("no server is running on %s; start one with sluice serve, or set SLUICE_URL and SLUICE_TOKEN", dir)
	}
	return addresses.HTTP, err
}

// CheckServer returns a usage error unless the text can be a server's address.
func CheckServer(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return Usagef("--server or SLUICE_URL %q: write a URL such as http://127.0.0.1:8080", text)
	}
	return nil
}

// BearerToken returns the token to send. The root token in a data directory is only for the server
// of that directory, never for one that a flag names. It is empty for a server that a flag names
// without a token.
func (s *Session) BearerToken() (string, error) {
	if s.Token != "" || s.Server != "" {
		return s.Token, nil
	}
	dir, err := s.DataDir()
	if err != nil {
		return "", err
	}
	return ReadToken(dir)
}

// DataDir returns the data directory of the server on this machine.
func (s *Session) DataDir() (string, error) {
	if s.Data != "" {
		return s.Data, nil
	}
	cfg, err := config.Load("", s.Environ)
	if err != nil {
		return "", err
	}
	if cfg.Data == "" {
		return "", Usagef("set --data or SLUICE_DATA: without HOME and XDG_DATA_HOME, the data directory has no default")
	}
	return cfg.Data, nil
}

// ReadAddresses returns the addresses of the server of a data directory.
func ReadAddresses(dir string) (datadir.Addresses, error) {
	var addresses datadir.Addresses
	file := filepath.Join(dir, datadir.AddressesFile)
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return addresses, fmt.Errorf("read the server's addresses: %w", err)
	}
	if err := json.Unmarshal(data, &addresses); err != nil {
		return addresses, fmt.Errorf("%s: %w", file, err)
	}
	return addresses, nil
}

// ReadToken returns the root token of the server of a data directory.
func ReadToken(dir string) (string, error) {
	data, err := os.ReadFile(filepath.Clean(filepath.Join(dir, datadir.RootTokenFile)))
	if err != nil {
		return "", fmt.Errorf("read the root token: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
