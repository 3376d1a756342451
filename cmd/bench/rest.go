package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// restPlan is the rows of publishing over HTTP beside publishing to NATS: both to the same server, which delivers every event.
type restPlan struct {
	events  int // of a row
	batch   int // events of a request, in the rows of batches
	clients int // each with a connection of its own, one request after the other
	paths   int
	window  int // deliveries in flight at most
	rounds  int
}

// restRow is the result of a way of publishing.
type restRow struct {
	rate         float64
	ack50, ack99 time.Duration // of a request
	delivered    float64       // events a second, until the last has arrived
	p50, p99     time.Duration // from the beginning of a request to the arrival of its events
	cpu          time.Duration // of the server, for each event
	again        int
}

// sender publishes n events from first on in one request. It returns when the request is answered.
// It must be safe for concurrent use.
type sender func(ctx context.Context, phase, first, n int) error

func (p restPlan) table() table[restRow] {
	t := table[restRow]{
		name: "rest", title: "Publishing over HTTP and NATS", plot: "accepted/s", rounds: p.rounds,
		about: fmt.Sprintf("%d clients publish %s events over %d paths (a third of them with sync always), each request after the answer to the one before. "+
			"All events are delivered to one endpoint on the same cores, %d at once. "+
			"The processor's time is the server's, deliveries included.", p.clients, number(float64(p.events)), p.paths, p.window),
		columns: []column[restRow]{
			compared("accepted/s", func(r restRow) float64 { return r.rate }),
			inMillis("answer p50", func(r restRow) time.Duration { return r.ack50 }),
			inMillis("answer p99", func(r restRow) time.Duration { return r.ack99 }),
			compared("delivered/s", func(r restRow) float64 { return r.delivered }),
			inMillis("arrival p50", func(r restRow) time.Duration { return r.p50 }),
			inMillis("arrival p99", func(r restRow) time.Duration { return r.p99 }),
			inMillis("CPU each", func(r restRow) time.Duration { return r.cpu }),
			counted("sent again", func(r restRow) int { return r.again }),
		},
	}
	for _, sync := range []string{defaultSync, "always"} {
		base, p := "NATS, sync "+sync, p
		if sync != defaultSync {
			p.events /= 3
		}
		for _, k := range []struct {
			head  head
			batch int
			by    func(context.Context, *bed) (sender, func(), error)
		}{
			{head{Name: base}, 1, p.overNATS},
			{head{Name: "HTTP, sync " + sync, Base: base}, 1, p.overHTTP},
			{head{Name: fmt.Sprintf("HTTP, %d a request, sync %s", p.batch, sync), Base: base}, p.batch, p.overHTTP},
		} {
			t.subjects = append(t.subjects, one(k.head, func(ctx context.Context, e env) (restRow, error) { return p.round(ctx, e, sync, k.batch, k.by) }))
		}
	}
	return t
}

// round measures one way of publishing to a server of its own.
func (p restPlan) round(ctx context.Context, e env, syncing string, batch int, by func(context.Context, *bed) (sender, func(), error)) (row restRow, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	hook, err := listen(ctx)
	if err != nil {
		return row, err
	}
	defer hook.close()
	b, err := e.makeSyncing(ctx, syncing)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := subscribe(ctx, b.api, consumerName, hook.url, policy{"window": p.window}); err != nil {
		return row, err
	}
	send, end, err := by(ctx, b)
	if err != nil {
		return row, err
	}
	defer end()
	f := flooding{p.clients, batch, hook, send}
	if _, err := f.flood(ctx, 0, max(p.events/10, batch)); err != nil {
		return row, fmt.Errorf("warm-up: %w", err)
	}
	before := b.proc.usage().cpu
	got, err := f.flood(ctx, 1, p.events)
	if err != nil {
		return row, err
	}
	if err := b.rests(ctx, consumerName); err != nil {
		return row, err
	}
	row.cpu = (b.proc.usage().cpu - before) / time.Duration(p.events)
	row.rate = float64(p.events) / got.accepted.Seconds()
	row.ack50, row.ack99 = percentile(got.acks, 50), percentile(got.acks, 99)
	row.delivered, row.p50, row.p99, row.again = got.rate(), got.percentile(50), got.percentile(99), hook.again()
	return row, nil
}

// published is the answers and arrivals of a flood.
type published struct {
	*arrivals

	acks     []time.Duration // of each request
	accepted time.Duration   // until the last answer
}

// flooding is clients that publish at once, each with so many events in a request.
type flooding struct {
	clients, batch int
	hook           *receiver
	send           sender
}

// flood publishes n events and waits for their arrival. It returns an error if a request fails, or
// if not all events arrive before ctx ends.
func (f flooding) flood(ctx context.Context, phase, n int) (*published, error) {
	got := &published{arrivals: f.hook.expect(phase, n), acks: make([]time.Duration, (n+f.batch-1)/f.batch)}
	var next atomic.Int64
	err := together(f.clients, func(int) error {
		for i := int(next.Add(1)) - 1; i < len(got.acks); i = int(next.Add(1)) - 1 {
			began := time.Now()
			if err := f.send(ctx, phase, i*f.batch, min(f.batch, n-i*f.batch)); err != nil {
				return err
			}
			got.acks[i] = time.Since(began)
		}
		return nil
	})
	got.accepted = time.Since(got.begun)
	if err != nil {
		return nil, err
	}
	select {
	case <-got.all:
		return got, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%d of %d events arrived: %w", got.count.Load(), n, context.Cause(ctx))
	}
}

// path returns the path of an event.
func (p restPlan) path(number int) sluice.Path {
	return sluice.Path(fmt.Sprintf("/%s/p%d", consumerName, number%p.paths))
}

func (p restPlan) overNATS(ctx context.Context, b *bed) (send sender, end func(), err error) {
	l, err := plan{publishers: p.clients}.connect(ctx, b.proc.nats, nil)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, phase, number, _ int) error {
		_, err := l.js[number%len(l.js)].Publish(ctx, streams.Names{}.Subject(namespace, p.path(number)), body(phase, number, time.Now(), size))
		return err
	}, l.close, nil
}

// overHTTP publishes over plain connections: a client of net/http would take more of the cores than
// the server's part. end closes the connections; no send may be in progress then.
func (p restPlan) overHTTP(ctx context.Context, b *bed) (send sender, end func(), err error) {
	free := make(chan *httpConn, p.clients)
	end = func() {
		for range len(free) {
			_ = (<-free).Close() // there is no remedy
		}
	}
	for range p.clients {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", b.http)
		if err != nil {
			end()
			return nil, nil, err
		}
		free <- &httpConn{Conn: conn, in: bufio.NewReader(conn)}
	}
	head := "POST /v1/namespaces/" + namespace + "/events HTTP/1.1\r\nHost: " + b.http + "\r\nAuthorization: Bearer " + b.token +
		"\r\nContent-Type: application/json\r\nContent-Length: "
	return func(_ context.Context, phase, first, n int) error {
		c := <-free
		defer func() { free <- c }()
		return c.post(head, p.request(phase, first, n))
	}, end, nil
}

// request returns the body of a request with the events from first on: plain JSON, one alone or an array.
func (p restPlan) request(phase, first, n int) []byte {
	var out bytes.Buffer
	for i := range n {
		fmt.Fprintf(&out, `,{"path":%q,"type":"bench.published","data":%s}`, p.path(first+i), body(phase, first+i, time.Now(), size))
	}
	if n == 1 {
		return out.Bytes()[1:]
	}
	out.Bytes()[0] = '['
	out.WriteByte(']')
	return out.Bytes()
}

// httpConn is a client's connection to the API.
type httpConn struct {
	net.Conn

	in *bufio.Reader
}

// post sends a request and reads its answer, which must be 201 Created.
func (c *httpConn) post(head string, body []byte) error {
	out := append(strconv.AppendInt([]byte(head), int64(len(body)), 10), "\r\n\r\n"...)
	if _, err := c.Write(append(out, body...)); err != nil {
		return err
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(res.Body)
	err = errors.Join(err, res.Body.Close())
	if err == nil && res.StatusCode != http.StatusCreated {
		err = fmt.Errorf("publish: %s %s", res.Status, answer)
	}
	return err
}
