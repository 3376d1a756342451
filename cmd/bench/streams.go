package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// streamsPlan is the rows of Durable Streams, each beside JetStream's own, on the same server.
type streamsPlan struct {
	appends  int           // one after another, each with a waiting reader
	interval time.Duration // between one's arrival and the next
	flood    int           // concurrent appends by many clients
	clients  int
	wakes    int           // appends that wake a consumer, one after another
	settles  time.Duration // between one's notice and the next append
	crowd    int           // paths that are woken at once
	readers  int           // of one stream
	paced    int           // messages to all of them, ten a second
	rounds   int
}

// streamRow is the result of a probe: the delay, or the rate per second.
type streamRow struct {
	count    int
	rate     float64 // a second; 0 if it is not the subject
	p50, p99 time.Duration
	last     time.Duration // the longest
	cpu      time.Duration // of the server, for each; 0 if it is not the subject
}

// rowOf returns the row of the given delays.
func rowOf(all []time.Duration) streamRow {
	return streamRow{count: len(all), p50: percentile(all, 50), p99: percentile(all, 99), last: percentile(all, 100)}
}

// probe measures one row. run leaves nothing running, but its streams remain on the server.
type probe struct {
	name, aim string
	run       func(ctx context.Context, b *bed) (streamRow, error)
}

// probes are the rows in order: of two, the first is the baseline of the second.
func (p streamsPlan) probes() []probe {
	return []probe{
		{"publish to consumer, JetStream", "", p.publishToConsumer},
		{"append to long-poll, Sluice", "1.0 / 5 ms", p.appendToLongPoll},
		{fmt.Sprintf("publish by %d, JetStream", p.clients), "", p.publishByMany},
		{fmt.Sprintf("append by %d, Sluice", p.clients), "10000/s", p.appendByMany},
		{"bare POST", "", p.post},
		{"append to wake, Sluice", "1.0 ms", p.appendToWake},
		{fmt.Sprintf("%d bare POSTs at once", p.crowd), "", p.postCrowd},
		{fmt.Sprintf("%d paths woken at once, Sluice", p.crowd), "last in 1 s", p.wakeCrowd},
		{fmt.Sprintf("to %d readers of a feed", p.readers), "", p.feedMany},
		{fmt.Sprintf("to %d readers of a stream", p.readers), "8 ms, 20 µs", p.streamMany},
	}
}

func (p streamsPlan) table() table[streamRow] {
	var rows []head
	for i, probe := range p.probes() {
		rows = append(rows, head{Name: probe.name, Aim: probe.aim})
		if i%2 == 1 {
			rows[i].Base = rows[i-1].Name
		}
	}
	return table[streamRow]{
		name: "streams", title: "Durable Streams and wakes", plot: "p50 ms", rounds: p.rounds,
		about: fmt.Sprintf("Each of %s messages has a reader that waits for it. %d clients send %s to one stream, each a request. "+
			"%d messages wake an idle consumer one by one, and %s paths are woken at once. %d messages, %d a second, go to %d readers with server-sent events. "+
			"Baselines are JetStream's own publish on the same server, and bare POSTs to the same endpoint.",
			number(float64(p.appends)), p.clients, number(float64(p.flood)), p.wakes, number(float64(p.crowd)), p.paced, perSecond, p.readers),
		columns: []column[streamRow]{
			counted("messages", func(r streamRow) int { return r.count }),
			compared("a second", func(r streamRow) float64 { return r.rate }),
			inMillis("p50", func(r streamRow) time.Duration { return r.p50 }),
			inMillis("p99", func(r streamRow) time.Duration { return r.p99 }),
			inMillis("last", func(r streamRow) time.Duration { return r.last }),
			compared("server CPU each µs", func(r streamRow) float64 { return micros(r.cpu) }),
		},
		subjects: []subject[streamRow]{{rows, p.round}},
	}
}

// round measures every row once, on a server of its own.
func (p streamsPlan) round(ctx context.Context, e env) (rows []streamRow, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	b, err := e.makeBed(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, b.close()) }()
	for _, probe := range p.probes() {
		e.progress("  %s\n", probe.name)
		row, err := probe.run(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", probe.name, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// publishToConsumer measures from the start of a publish to its arrival at a waiting consumer.
func (p streamsPlan) publishToConsumer(ctx context.Context, b *bed) (streamRow, error) {
	const path = "/streams/published"
	consumer, err := b.js.OrderedConsumer(ctx, streams.Names{}.EventsStream(namespace), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{streams.Names{}.Subject(namespace, path)},
	})
	if err != nil {
		return streamRow{}, err
	}
	msgs, err := consumer.Messages()
	if err != nil {
		return streamRow{}, err
	}
	defer msgs.Stop()
	send := func(ctx context.Context, number int) error { return b.publishAt(ctx, path, number) }
	return pace{p.appends, p.interval}.oneByOne(ctx, send, func(ctx context.Context, each func(error) bool) {
		for {
			if _, err := msgs.Next(jetstream.NextContext(ctx)); !each(err) {
				return
			}
		}
	})
}

// appendToLongPoll measures from the start of an append to the answer of a waiting long-poll.
func (p streamsPlan) appendToLongPoll(ctx context.Context, b *bed) (streamRow, error) {
	const path = "/streams/polled"
	api, done := b.manyConnections(2)
	defer done()
	if _, _, err := api.CreateStream(ctx, namespace, path, client.StreamSpec{ContentType: media}); err != nil {
		return streamRow{}, err
	}
	send := func(ctx context.Context, number int) error { return appendTo(ctx, api, path, number) }
	return pace{p.appends, p.interval}.oneByOne(ctx, send, func(ctx context.Context, each func(error) bool) {
		for _, err := range api.FollowStream(ctx, namespace, path, "") {
			if !each(err) {
				return
			}
		}
	})
}

const media = "application/json"

// manyConnections returns a client with this many connections, and a function that closes them.
func (b *bed) manyConnections(n int) (api *client.Client, done func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: n}
	with := *b.api
	with.HTTP = &http.Client{Transport: transport}
	return &with, transport.CloseIdleConnections
}

func (b *bed) publishAt(ctx context.Context, path sluice.Path, number int) error {
	_, err := b.js.Publish(ctx, streams.Names{}.Subject(namespace, path), body(0, number, time.Now(), size))
	return err
}

func appendTo(ctx context.Context, api *client.Client, path sluice.Path, number int) error {
	_, err := api.AppendStream(ctx, namespace, path, client.StreamAppend{ContentType: media, Data: body(0, number, time.Now(), size)})
	return err
}

// came is the time of an arrival, or the reason why none comes.
type came struct {
	at  time.Time
	err error
}

// pace is a number of sequential sends, and the time between one's arrival and the next.
type pace struct {
	n        int
	interval time.Duration
}

// oneByOne sends one after another, each when the previous one has arrived and the waiter has had
// time to wait again, and measures the delay of each. The waiter calls each with every arrival,
// until that returns false. An arrival before its send is an error.
func (p pace) oneByOne(
	ctx context.Context, send func(ctx context.Context, number int) error, wait func(ctx context.Context, each func(error) bool),
) (streamRow, error) {
	ctx, cancel := context.WithCancel(ctx)
	arrivals, ended := make(chan came), make(chan struct{})
	defer func() {
		cancel()
		<-ended
	}()
	go func() { // ends with the first error, or when this function does
		defer close(ended)
		wait(ctx, func(err error) bool {
			select {
			case arrivals <- came{time.Now(), err}:
				return err == nil
			case <-ctx.Done():
				return false
			}
		})
	}()
	var all []time.Duration
	pause := time.NewTimer(p.interval)
	defer pause.Stop()
	for number := range p.n {
		<-pause.C
		begun := time.Now()
		if err := send(ctx, number); err != nil {
			return streamRow{}, err
		}
		select {
		case a := <-arrivals:
			if a.err != nil {
				return streamRow{}, a.err
			}
			if a.at.Before(begun) {
				return streamRow{}, fmt.Errorf("something arrived before message %d was sent", number)
			}
			all = append(all, a.at.Sub(begun))
		case <-ctx.Done():
			return streamRow{}, context.Cause(ctx)
		}
		pause.Reset(p.interval)
	}
	return rowOf(all), nil
}

// publishByMany measures the rate of acknowledged publishes of many clients, each of which waits
// for its own.
func (p streamsPlan) publishByMany(ctx context.Context, b *bed) (streamRow, error) {
	return p.byMany(func(number int) error { return b.publishAt(ctx, "/streams/flooded", number) })
}

// appendByMany measures the rate of acknowledged appends to one stream, each a request.
func (p streamsPlan) appendByMany(ctx context.Context, b *bed) (row streamRow, err error) {
	const path = "/streams/appended"
	api, done := b.manyConnections(p.clients)
	defer done()
	before, _, err := api.CreateStream(ctx, namespace, path, client.StreamSpec{ContentType: media})
	if err != nil {
		return streamRow{}, err
	}
	if row, err = p.byMany(func(number int) error { return appendTo(ctx, api, path, number) }); err != nil {
		return row, err
	}
	stored, err := countOf(ctx, api, path, before.Next)
	if err == nil && stored != row.count {
		err = fmt.Errorf("%d appends were acknowledged, and %d are there", row.count, stored)
	}
	return row, err
}

// byMany sends with many clients. The rate is that of the acknowledged ones, by all clients
// together.
func (p streamsPlan) byMany(send func(number int) error) (streamRow, error) {
	begun := time.Now()
	err := together(p.clients, func(c int) error {
		for number := c; number < p.flood; number += p.clients {
			if err := send(number); err != nil {
				return err
			}
		}
		return nil
	})
	return streamRow{count: p.flood, rate: float64(p.flood) / time.Since(begun).Seconds()}, err
}

// perSecond is how many messages are sent to many readers.
const perSecond = 10

// feedMany measures from the start of a publish to its frames at many readers.
func (p streamsPlan) feedMany(ctx context.Context, b *bed) (streamRow, error) {
	return p.toMany(ctx, b, audience{Query: "pattern=/readers/*"}, func() error { return b.pace(ctx, flow{"readers", "p", 0, 1}, p.paced, perSecond) })
}

// streamMany measures from the start of an append to its message at many readers with server-sent events.
func (p streamsPlan) streamMany(ctx context.Context, b *bed) (streamRow, error) {
	const path = "/streams/read"
	api, done := b.manyConnections(1)
	defer done()
	if _, _, err := api.CreateStream(ctx, namespace, path, client.StreamSpec{ContentType: media}); err != nil {
		return streamRow{}, err
	}
	return p.toMany(ctx, b, audience{Stream: path}, func() error {
		tick := time.NewTicker(time.Second / perSecond)
		defer tick.Stop()
		for number := range p.paced {
			if err := appendTo(ctx, api, path, number); err != nil {
				return err
			}
			<-tick.C
		}
		return nil
	})
}

// toMany measures an audience of many readers.
func (p streamsPlan) toMany(ctx context.Context, b *bed, a audience, send func() error) (streamRow, error) {
	a.Readers, a.Expect = p.readers, p.paced
	row, err := feedsPlan{}.told(ctx, b, a, send)
	return streamRow{count: row.count, p50: row.p50, p99: row.p99, last: row.last, cpu: row.cpu}, err
}

// countOf returns the number of a stream's messages behind an offset.
func countOf(ctx context.Context, api *client.Client, path sluice.Path, offset string) (n int, err error) {
	page := client.StreamPage{Next: offset}
	for !page.UpToDate {
		if page, err = api.ReadStream(ctx, namespace, path, page.Next); err != nil {
			return 0, err
		}
		messages, err := page.Messages()
		if err != nil {
			return 0, err
		}
		n += len(messages)
	}
	return n, nil
}
