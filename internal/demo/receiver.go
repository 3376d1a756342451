package demo

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/pkg/webhook"
)

// receiver is one endpoint of the demonstration: it verifies, answers and reports.
type receiver struct {
	name   string
	url    string
	secret string
	report *report
	refuse func(*webhook.Delivery) bool // whether to answer 503 to a genuine request
	server *http.Server
	ended  chan struct{}
}

func newReceiver(name string, r *report, refuse func(*webhook.Delivery) bool) *receiver {
	key := make([]byte, 32)
	rand.Read(key) // never returns an error
	secret := webhook.SecretPrefix + base64.StdEncoding.EncodeToString(key)
	return &receiver{name: name, secret: secret, report: r, refuse: refuse, ended: make(chan struct{})}
}

// never refuses nothing.
func never(*webhook.Delivery) bool { return false }

// stubborn refuses the first two attempts at one event in this many. Calls must not overlap.
func stubborn(every int) func(*webhook.Delivery) bool {
	const attempts = 2
	order := map[string]int{}
	return func(d *webhook.Delivery) bool {
		n, known := order[d.ID]
		if !known {
			n = len(order) + 1
			order[d.ID] = n
		}
		return n%every == 0 && d.Attempt <= attempts
	}
}

// listen serves requests on a free port until close.
func (r *receiver) listen(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("demo: receiver %s: %w", r.name, err)
	}
	r.url = "http://" + listener.Addr().String() + "/hook"
	r.server = &http.Server{Handler: http.HandlerFunc(r.take), ReadHeaderTimeout: 10 * time.Second}
	go func() { // close ends it and waits for it
		defer close(r.ended)
		_ = r.server.Serve(listener)
	}()
	return nil
}

// close lets requests in flight be answered.
func (r *receiver) close(ctx context.Context) {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = r.server.Shutdown(limit) // the demonstration is over either way
	<-r.ended
}

// take answers one request: 2xx, 503 as arranged, or the refusal of one that is not genuine.
func (r *receiver) take(w http.ResponseWriter, req *http.Request) {
	now := time.Now()
	genuine := webhook.Receiver{Secrets: []string{r.secret}}
	d, err := genuine.Receive(req)
	a := arrival{receiver: r.name, at: now, delivery: d, err: err, status: http.StatusNoContent}
	if err != nil {
		a.status = webhook.Status(err)
	}
	a.refuse = r.refuse
	status := r.report.arrived(a)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, statusText(status))
}

// statusText is the text of a refusal; a success has none.
func statusText(status int) string {
	if status < http.StatusMultipleChoices {
		return ""
	}
	return http.StatusText(status)
}
