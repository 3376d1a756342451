package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	name      string
	rss, heap int64 // idle from its beginning
	sent      int64 // resident, idle after it was sent some
}

func (p idlePlan) measure(ctx context.Context, e env) ([]idleRow, error) {
	var rows []idleRow
	for _, r := range []struct {
		name string
		a    audience
	}{{"server-sent events", audience{}}, {"WebSocket", audience{Socket: true}}} {
		e.progress("feeds: memory of %d connections, %s\n", p.readers, r.name)
		row, err := p.round(ctx, e, r.a)
		if err != nil {
			return nil, fmt.Errorf("memory of feeds, %s: %w", r.name, err)
		}
		row.name = r.name
		rows = append(rows, row)
	}
	return rows, nil
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

func (p idlePlan) print(w io.Writer, rows []idleRow) error {
	text := fmt.Sprintf("\nMemory of the server for each of %d connections that are sent nothing, and after they were sent %d events; the aim is 40 KiB\n\n", p.readers, p.sent)
	var cells strings.Builder
	cells.WriteString("KiB each\tresident\theap and stacks in use\tresident, after some events\t\n")
	for _, r := range rows {
		fmt.Fprintf(&cells, "%s\t%.1f\t%.1f\t%.1f\t\n", r.name, kibOf(r.rss), kibOf(r.heap), kibOf(r.sent))
	}
	return write(w, text, cells.String())
}

func kibOf(bytes int64) float64 { return float64(bytes) / 1024 }

// statePlan is the rows of the state of namespaces with this many paths.
type statePlan struct {
	paths  []int
	events int // of each path
	page   int
}

type stateRow struct {
	paths    int
	all      time.Duration // all pages, one after another
	p50, max time.Duration // of a page
	one      time.Duration // the state of one path, median
}

func (p statePlan) measure(ctx context.Context, e env) (rows []stateRow, err error) {
	for _, paths := range p.paths {
		e.progress("state of %d paths\n", paths)
		row, err := p.round(ctx, e, paths)
		if err != nil {
			return nil, fmt.Errorf("state of %d paths: %w", paths, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
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
		if _, err := b.js.PublishAsync(streams.Subject(namespace, path), body(0, n, time.Now(), size)); err != nil {
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
	row.paths = paths
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

func (p statePlan) print(w io.Writer, rows []stateRow) error {
	text := fmt.Sprintf("\nThe state of a namespace with %d events of %d bytes on each path, in pages of %d\n\n", p.events, size, p.page)
	var cells strings.Builder
	cells.WriteString("paths\tall ms\tpage, p50 ms\tpage, longest ms\tone path, p50 ms\t\n")
	for _, r := range rows {
		fmt.Fprintf(&cells, "%d\t%.0f\t%.1f\t%.1f\t%.2f\t\n", r.paths, ms(r.all), ms(r.p50), ms(r.max), ms(r.one))
	}
	return write(w, text, cells.String())
}
