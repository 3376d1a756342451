package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/streams"
)

// loopEnv makes a child process the bare loop that its value, a loop in JSON, describes.
const loopEnv = "SLUICE_BENCH_LOOP"

// loop is a minimal implementation: a NATS server in the process, a durable consumer, workers that
// POST the data and acknowledge. It signs nothing, keeps no order and no log, and a failed message
// is redelivered when its ack wait is over, or earlier by a timer. It is ready when it has written
// its addresses into Data, and runs until SIGTERM or SIGINT. With Fan, a message is acknowledged
// when all its POSTs were answered 200.
type loop struct {
	Data   string `json:"data"`
	Sync   string `json:"sync"`
	URL    string `json:"url"`
	Window int    `json:"window"`

	Fan   int           `json:"fan"`   // each message is POSTed so often, with its number for the %d in the URL; 0: once
	Again time.Duration `json:"again"` // a failed message is POSTed again after this; 0: when its ack wait is over
}

// runLoop is the process of the bare loop. It returns when ctx has ended and its workers have.
func runLoop(ctx context.Context, spec string) (err error) {
	var l loop
	if err := json.Unmarshal([]byte(spec), &l); err != nil {
		return err
	}
	server, err := natsd.Start(ctx, natsd.Options{StoreDir: filepath.Join(l.Data, "nats"), Sync: l.Sync})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Shutdown()) }()
	nc, err := nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		return err
	}
	defer nc.Close()
	consumer, err := l.provision(ctx, nc)
	if err != nil {
		return err
	}
	messages := make(chan job)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(messages)
	l.work(ctx, &workers, messages)
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		left := new(atomic.Int64)
		left.Store(int64(max(1, l.Fan)))
		for i := range max(1, l.Fan) {
			select {
			case messages <- job{m, strings.Replace(l.URL, "%d", strconv.Itoa(i), 1), left}:
			case <-ctx.Done():
			}
		}
	}, jetstream.PullMaxMessages(2*l.Window))
	if err != nil {
		return err
	}
	if err := writeAddresses(l.Data, addresses{NATS: server.ClientURL()}); err != nil {
		return err
	}
	<-ctx.Done()
	consuming.Stop()
	<-consuming.Closed()
	return nil
}

// provision creates the stream and the consumer. It also succeeds if they exist with the same
// configuration.
func (l loop) provision(ctx context.Context, nc *nats.Conn) (jetstream.Consumer, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: streams.Names{}.EventsStream(namespace), Subjects: []string{streams.Names{}.EventsSubjects(namespace)}, MaxAge: 7 * 24 * time.Hour,
	})
	if err != nil {
		return nil, err
	}
	return stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: consumerName, AckPolicy: jetstream.AckExplicitPolicy,
		MaxAckPending: -1, // messages that wait for their timer are unacknowledged
	})
}

// work starts the workers. They end when messages is closed; those that wait for a timer end with
// ctx.
func (l loop) work(ctx context.Context, workers *sync.WaitGroup, messages <-chan job) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: l.Window}, Timeout: 15 * time.Second}
	again := make(chan struct{}, l.Window) // as many concurrent ones as workers
	for range l.Window {
		workers.Go(func() {
			for m := range messages {
				if l.handle(ctx, client, m) || l.Again == 0 {
					continue
				}
				due := time.After(l.Again)
				workers.Go(func() {
					select {
					case <-due:
					case <-ctx.Done():
						return
					}
					again <- struct{}{}
					l.handle(ctx, client, m)
					<-again
				})
			}
		})
	}
}

// job is a POST of a message, which is acknowledged after its last one.
type job struct {
	jetstream.Msg

	url  string
	left *atomic.Int64
}

// handle reports whether the message was POSTed. A failed message stays unacknowledged.
func (l loop) handle(ctx context.Context, client *http.Client, m job) bool {
	if err := post(ctx, client, m.url, m.Data()); err != nil {
		if l.Again == 0 {
			fmt.Fprintln(os.Stderr, "post:", err)
		}
		return false
	}
	if m.left.Add(-1) > 0 {
		return true
	}
	if err := m.Ack(); err != nil {
		fmt.Fprintln(os.Stderr, "ack:", err)
	}
	return true
}

// post sends data. Any answer but 200 is an error.
func post(ctx context.Context, client *http.Client, url string, data []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	if res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the receiver answered %s", res.Status)
	}
	return errors.Join(err, res.Body.Close())
}
