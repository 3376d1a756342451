package certs

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// lookEvery is how often the files are looked at, at most.
const lookEvery = time.Second

// Reloader hands out the certificate that its files hold. Its methods may be called at once.
type Reloader struct {
	Log *slog.Logger // slog.DiscardHandler; to be set before the first use

	certFile, keyFile string

	mu     sync.Mutex
	cert   *tls.Certificate // the last that was good
	seen   state            // of the files when they were last read
	looked time.Time
}

// New returns a reloader with the certificate and private key of two PEM files, which may be the
// same. Returns an error if they cannot be read or do not belong together.
func New(cert, key string) (*Reloader, error) {
	r := &Reloader{certFile: cert, keyFile: key}
	var err error
	if r.seen, err = r.look(); err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	if r.cert, err = r.read(); err != nil {
		return nil, err
	}
	r.looked = time.Now()
	return r, nil
}

// GetCertificate is what a tls.Config calls at each handshake. It reads the files again if they
// have changed, looking once a second at most. While what is there is no certificate with its
// key, as between two writes, the one before is served and the reason is logged once.
func (r *Reloader) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.looked) >= lookEvery {
		r.looked = now
		r.refresh()
	}
	return r.cert, nil
}

func (r *Reloader) refresh() {
	now, err := r.look()
	if now == r.seen {
		return
	}
	r.seen = now
	var cert *tls.Certificate
	if err == nil {
		cert, err = r.read()
	}
	log := cmp.Or(r.Log, slog.New(slog.DiscardHandler))
	if err != nil {
		log.Error("the certificate that is there now cannot be used; the one before is served", slog.Any("error", err))
		return
	}
	r.cert = cert
	log.Info("certificate read again", slog.String("file", r.certFile))
}

func (r *Reloader) read() (*tls.Certificate, error) {
	cert, err := tls.LoadX509KeyPair(r.certFile, r.keyFile)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", r.certFile, r.keyFile, err)
	}
	return &cert, nil
}

// state is what tells that files were changed; the zero value is that of files that are not there.
type state struct {
	certTime, keyTime time.Time
	certSize, keySize int64
}

func (r *Reloader) look() (state, error) {
	cert, err := os.Stat(r.certFile)
	if err != nil {
		return state{}, err
	}
	key, err := os.Stat(r.keyFile)
	if err != nil {
		return state{}, err
	}
	return state{cert.ModTime(), key.ModTime(), cert.Size(), key.Size()}, nil
}
