package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// idlePlan is the rows of the cost of an idle connection.
type idlePlan struct {
	readers int
	sent    int           // events that each is then sent
	rests   time.Duration // until memory is read
}

// idleRow is memory for each connection, in bytes.
type idleRow struct {
	rss, heap int64 // idle from its beginning
	sent      int64 // resident, idle after it was sent some
}

func (p idlePlan) table() table[idleRow] {
	t := table[idleRow]{
		name: "feeds-idle", title: "Memory of idle feeds", rounds: 1,
		about: fmt.Sprintf("The server's memory for each of %s connections that are sent nothing, and after they were sent %d events.", number(float64(p.readers)), p.sent),
		columns: []column[idleRow]{
			compared("resident KiB", func(r idleRow) float64 { return float64(r.rss) / 1024 }),
			compared("heap and stacks in use KiB", func(r idleRow) float64 { return float64(r.heap) / 1024 }),
			compared("resident after events KiB", func(r idleRow) float64 { return float64(r.sent) / 1024 }),
		},
	}
	for _, r := range []struct {
		name string
		a    audience
	}{{"server-sent events", audience{}}, {"WebSocket", audience{Socket: true}}} {
		t.subjects = append(t.subjects, one(head{Name: r.name, Aim: "40 KiB"}, func(ctx context.Context, e env) (idleRow, error) { return p.round(ctx, e, r.a) }))
	}
	return t
}

func (p idlePlan) round(ctx context.Context, e env, a audience) (row idleRow, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	b, err := e.makeBed(ctx)
	if err != nil {
		return row, err
	}
	defer func() { err = cmp.Or(err, b.close()) }()
	a.Query, a.Readers = "pattern=/feeds/*", 20
	first, err := b.audience(ctx, a) // the common needs of all connections
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, first.leave()) }()
	before, err := p.rest(ctx, b)
	if err != nil {
		return row, err
	}
	a.Readers = p.readers
	g, err := b.audience(ctx, a)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, g.leave()) }()
	idle, err := p.rest(ctx, b)
	if err != nil {
		return row, err
	}
	if err := b.pace(ctx, flow{"feeds", "p", 0, 10}, p.sent, 20); err != nil {
		return row, err
	}
	after, err := p.rest(ctx, b)
	n := int64(p.readers)
	return idleRow{rss: (idle.rss - before.rss) / n, heap: (idle.heap - before.heap) / n, sent: (after.rss - before.rss) / n}, err
}

// memory is a server's memory, in bytes.
type memory struct{ rss, heap int64 }

// rest waits for a while, and reads the memory.
func (p idlePlan) rest(ctx context.Context, b *bed) (m memory, err error) {
	select {
	case <-time.After(p.rests):
	case <-ctx.Done():
		return m, context.Cause(ctx)
	}
	m.rss = b.proc.usage().rss
	m.heap, err = b.heap(ctx)
	return m, err
}

// heap reads a server's heap and stacks in use from its metrics.
func (b *bed) heap(ctx context.Context) (bytes int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.http+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+b.token)
	res, err := b.api.HTTP.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if name == "go_memstats_heap_inuse_bytes" || name == "go_memstats_stack_inuse_bytes" {
			n, _ := strconv.ParseFloat(value, 64) // the server writes numbers
			bytes += int64(n)
		}
	}
	return bytes, lines.Err()
}

// statePlan is the rows of the state of namespaces with this many paths.
type statePlan struct {
	paths  []int
	events int // of each path
	page   int
}

type stateRow struct {
	all      time.Duration // all pages, one after another
	p50, max time.Duration // of a page
	one      time.Duration // the state of one path, median
}

func (p statePlan) table() table[stateRow] {
	t := table[stateRow]{
		name: "state", title: "State", plot: "all ms", rounds: 1,
		about: fmt.Sprintf("The state of a namespace with %d events on each path, read in pages of %s, and that of one path.", p.events, number(float64(p.page))),
		columns: []column[stateRow]{
			inMillis("all", func(r stateRow) time.Duration { return r.all }),
			inMillis("page p50", func(r stateRow) time.Duration { return r.p50 }),
			inMillis("longest page", func(r stateRow) time.Duration { return r.max }),
			inMillis("one path p50", func(r stateRow) time.Duration { return r.one }),
		},
	}
	for _, paths := range p.paths {
		t.subjects = append(t.subjects, one(head{Name: number(float64(paths)) + " paths"}, func(ctx context.Context, e env) (stateRow, error) { return p.round(ctx, e, paths) }))
	}
	return t
}

func (p statePlan) round(ctx context.Context, e env, paths int) (row stateRow, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	b, err := e.makeBed(ctx)
	if err != nil {
		return row, err
	}
	defer func() { err = cmp.Or(err, b.close()) }()
	for n := range p.events * paths {
		path := sluice.Path(fmt.Sprintf("/state/p%d", n%paths))
		if _, err := b.js.PublishAsync(streams.Names{}.Subject(namespace, path), body(0, n, time.Now(), size)); err != nil {
			return row, err
		}
	}
	select {
	case <-b.js.PublishAsyncComplete():
	case <-ctx.Done():
		return row, context.Cause(ctx)
	}
	row, err = p.read(ctx, b, paths)
	if err != nil {
		return row, err
	}
	var ones []time.Duration
	for n := range 50 {
		begun := time.Now()
		if _, err := b.api.StateOf(ctx, namespace, sluice.Path(fmt.Sprintf("/state/p%d", n*paths/50))); err != nil {
			return row, err
		}
		ones = append(ones, time.Since(begun))
	}
	row.one = percentile(ones, 50)
	return row, nil
}

// read reads all pages of a state, which must have all paths.
func (p statePlan) read(ctx context.Context, b *bed, paths int) (row stateRow, err error) {
	var pages []time.Duration
	begun, count := time.Now(), 0
	for q := (client.StateQuery{Pattern: "/state/*", Limit: p.page}); ; {
		asked := time.Now()
		page, err := b.api.State(ctx, namespace, q)
		if err != nil {
			return row, err
		}
		pages = append(pages, time.Since(asked))
		count += len(page.Events)
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if count != paths {
		return row, fmt.Errorf("the state has %d paths", count)
	}
	row.all, row.p50, row.max = time.Since(begun), percentile(pages, 50), percentile(pages, 100)
	return row, nil
}
