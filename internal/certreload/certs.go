// Package certreload reloads certificates from files when they change. A file is checked when its
// content is needed, at most once a second, so no goroutine runs and no notification is needed: the
// next handshake after a renewal uses the new certificate. If the files are unreadable, or the
// certificate and the key do not match (yet), the previous certificate stays in use.
package certreload

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// lookEvery is the minimum interval between checks of a file.
const lookEvery = time.Second

// Reloader is a certificate with its key.
type Reloader struct {
	// Complain is called with the reason why changed files are not used; nil: no call. Set it
	// before the first handshake.
	Complain func(error)

	files watched[*tls.Certificate]
}

// New reads a certificate, with its intermediate certificates, and its private key, both in PEM. An
// error names the file.
func New(cert, key string) (*Reloader, error) {
	r := &Reloader{}
	r.files = watched[*tls.Certificate]{names: []string{cert, key}, parse: parsePair}
	if err := r.files.start(); err != nil {
		return nil, err
	}
	return r, nil
}

func parsePair(content [][]byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

// GetCertificate returns the certificate in force, for a server's tls.Config.
func (r *Reloader) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return r.files.value(time.Now(), r.Complain), nil
}

// GetClientCertificate returns the certificate in force, for a client's tls.Config.
func (r *Reloader) GetClientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return r.files.value(time.Now(), r.Complain), nil
}

// Authorities are trusted certificates.
type Authorities struct {
	// Complain is called with the reason why a changed file is not used; nil: no call. Set it
	// before the first handshake.
	Complain func(error)

	files watched[*x509.CertPool]
}

// NewAuthorities reads a PEM file with one or more certificates.
func NewAuthorities(file string) (*Authorities, error) {
	a := &Authorities{}
	a.files = watched[*x509.CertPool]{names: []string{file}, parse: parsePool}
	if err := a.files.start(); err != nil {
		return nil, err
	}
	return a, nil
}

func parsePool(content [][]byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content[0]) {
		return nil, errors.New("no certificate in the file")
	}
	return pool, nil
}

// Pool returns the authorities in force. The caller must not change it.
func (a *Authorities) Pool() *x509.CertPool { return a.files.value(time.Now(), a.Complain) }

// watched is a value derived from files.
type watched[T any] struct {
	names []string
	parse func([][]byte) (T, error)

	mu      sync.Mutex
	looked  time.Time
	content [][]byte // last read, even if it could not be used
	good    T
}

func (w *watched[T]) start() error {
	content, err := w.read()
	if err == nil {
		w.good, err = w.parse(content)
	}
	if err != nil {
		return w.explain(err)
	}
	w.content, w.looked = content, time.Now()
	return nil
}

// value returns the current value of the files. It calls complain once for unusable content.
func (w *watched[T]) value(now time.Time, complain func(error)) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.looked) < lookEvery {
		return w.good
	}
	w.looked = now
	content, err := w.read()
	if slices.EqualFunc(content, w.content, slices.Equal) {
		return w.good
	}
	w.content = content
	var fresh T
	if err == nil {
		fresh, err = w.parse(content)
	}
	if err == nil {
		w.good = fresh
	} else if complain != nil {
		complain(fmt.Errorf("%w; the previous certificate stays in use", w.explain(err)))
	}
	return w.good
}

// read returns the files' content; nil for an unreadable one.
func (w *watched[T]) read() ([][]byte, error) {
	content := make([][]byte, len(w.names))
	var errs []error
	for i, name := range w.names {
		data, err := os.ReadFile(filepath.Clean(name))
		content[i] = data
		errs = append(errs, err)
	}
	return content, errors.Join(errs...)
}

// explain adds the files' names to an error.
func (w *watched[T]) explain(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path
	}
	return fmt.Errorf("%q: %w", w.names, err)
}
