// Package certreload reloads certificates from files when they change. A file is checked when its
// content is needed, at most once a second, so no goroutine runs and no notification is needed: the
// next handshake after a renewal uses the new certificate. Unreadable files, and certificates and
// keys that do not match (yet), leave the previous certificate in use.
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

// lookEvery is how often files are looked at, at most.
const lookEvery = time.Second

// Reloader is a certificate with its key.
type Reloader struct {
	// Complain is told why files that have changed are not used; nil: nobody. Set it before
	// the first handshake.
	Complain func(error)

	files watched[*tls.Certificate]
}

// New reads a certificate, with those between it and its authority, and its private key, both in PEM.
// An error says which file is wrong.
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

// GetCertificate returns the certificate that is in force, for a server's tls.Config.
func (r *Reloader) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return r.files.value(time.Now(), r.Complain), nil
}

// GetClientCertificate returns the certificate that is in force, for a client's tls.Config.
func (r *Reloader) GetClientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return r.files.value(time.Now(), r.Complain), nil
}

// Authorities are certificates of those who are believed.
type Authorities struct {
	// Complain is told why a file that has changed is not used; nil: nobody. Set it before the
	// first handshake.
	Complain func(error)

	files watched[*x509.CertPool]
}

// NewAuthorities reads a PEM file of one certificate or more.
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

// Pool returns the authorities that are in force. It is not to be changed.
func (a *Authorities) Pool() *x509.CertPool { return a.files.value(time.Now(), a.Complain) }

// watched is a value that is made of files.
type watched[T any] struct {
	names []string
	parse func([][]byte) (T, error)

	mu      sync.Mutex
	looked  time.Time
	content [][]byte // last seen, whether it could be used or not
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

// value returns what the files are worth now. Complain is told once of what cannot be used.
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

// read returns the files' content; nil for one that cannot be read.
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

// explain names the files that an error is about.
func (w *watched[T]) explain(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path
	}
	return fmt.Errorf("%q: %w", w.names, err)
}
