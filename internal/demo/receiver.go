package demo

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

const failing = http.StatusMultipleChoices // statuses from here on mean that the event was not accepted

// receiver is the endpoint of the demonstration. It verifies, answers and records requests. url is
// set by listen. record and stage have locks of their own, which are taken under mu.
type receiver struct {
	url    string
	secret string
	record *record
	stage  *stage
	server *http.Server
	ended  chan struct{}

	mu      sync.Mutex
	refuses func(*webhook.Delivery) bool // whether to answer 503 to a genuine request
	shows   bool                         // whether requests are printed
}

func newReceiver(r *record, g *stage) *receiver {
	key := make([]byte, 32)
	rand.Read(key) // never returns an error
	secret := webhook.SecretPrefix + base64.StdEncoding.EncodeToString(key)
	return &receiver{secret: secret, record: r, stage: g, ended: make(chan struct{}), refuses: refusePath(troubled)}
}

// refusePath refuses the events of a path.
func refusePath(path sluice.Path) func(*webhook.Delivery) bool {
	return func(d *webhook.Delivery) bool { return d.Path == string(path) }
}

// refuseTwice refuses the first two attempts at the events of a path.
func refuseTwice(path sluice.Path) func(*webhook.Delivery) bool {
	return func(d *webhook.Delivery) bool { return d.Path == string(path) && d.Attempt <= 2 }
}

// show sets whether requests are printed.
func (r *receiver) show(all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shows = all
}

// play prints requests and refuses the first attempts of one path.
func (r *receiver) play() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shows, r.refuses = true, refuseTwice(stubborn)
}

// repair accepts everything from now on.
func (r *receiver) repair() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = func(*webhook.Delivery) bool { return false }
}

// listen serves requests on a free port until close.
func (r *receiver) listen(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("demo: receiver: %w", err)
	}
	r.url = "http://" + listener.Addr().String() + "/hook"
	r.server = &http.Server{Handler: http.HandlerFunc(r.take), ReadHeaderTimeout: 10 * time.Second}
	go func() { // close ends it and waits for it
		defer close(r.ended)
		_ = r.server.Serve(listener)
	}()
	return nil
}

// close stops the receiver after it has answered requests in flight. It can be called twice.
// Requests have five seconds.
func (r *receiver) close(ctx context.Context) {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = r.server.Shutdown(limit) // the demonstration is over either way
	<-r.ended
}

// take answers one request: 204, 503 as arranged, or the refusal of one that is not genuine.
func (r *receiver) take(w http.ResponseWriter, req *http.Request) {
	a := arrival{at: time.Now(), status: http.StatusNoContent}
	genuine := webhook.Receiver{Secrets: []string{r.secret}}
	a.delivery, a.err = genuine.Receive(req)
	r.mu.Lock() // so that the record has the order of the answers
	if a.err != nil {
		a.status = webhook.Status(a.err)
	} else if r.refuses(a.delivery) {
		a.status = http.StatusServiceUnavailable
	}
	r.record.arrived(a)
	if r.shows {
		r.stage.arrived(a)
	}
	r.mu.Unlock()
	w.WriteHeader(a.status)
	if a.status >= failing {
		_, _ = io.WriteString(w, "not accepted") // the sender may be gone
	}
}
