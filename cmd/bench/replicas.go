package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// replicasPlan is the rows of two servers on a cluster of three NATS servers, with numbers of subscriptions.
type replicasPlan struct {
	manyPlan

	bound time.Duration // of a row
}

// replicasRow is the result of a row. The use of processes is the largest of those of its kind.
type replicasRow struct {
	manyRow

	refused, consumers int
	nats, servers      use
}

// use is what a process takes at rest.
type use struct {
	rss  int64
	idle float64 // share of a core
}

func (p replicasPlan) table() table[replicasRow] {
	t := table[replicasRow]{
		name: "replicas", title: "Three replicas", plot: perSecondColumn, rounds: 1,
		about: fmt.Sprintf("Two Sluice servers use a cluster of three nats-server processes, with three replicas of everything. "+
			"%d publishers send %s events that match one subscription each, and %d more, one each 10 ms, give p50 and p99 from publish to arrival. "+
			"Memory and processor are those of the largest process of its kind, after %s at rest. "+
			"The baseline is the row with the fewest subscriptions.", manyMakers, number(float64(p.events)), p.paced, p.rests),
		columns: []column[replicasRow]{
			{figure{Name: "created/s"}, func(r replicasRow) float64 { return r.created }},
			counted("refused", func(r replicasRow) int { return r.refused }),
			counted("consumers", func(r replicasRow) int { return r.consumers }),
			compared(perSecondColumn, func(r replicasRow) float64 { return r.rate }),
			inMillis("publish p99", func(r replicasRow) time.Duration { return r.ack }),
			inMillis("p50", func(r replicasRow) time.Duration { return r.p50 }),
			inMillis("p99", func(r replicasRow) time.Duration { return r.p99 }),
			inMiB("nats-server RSS", func(r replicasRow) int64 { return r.nats.rss }),
			{figure{Name: "nats-server idle, % of a core"}, func(r replicasRow) float64 { return 100 * r.nats.idle }},
			inMiB("Sluice RSS", func(r replicasRow) int64 { return r.servers.rss }),
			{figure{Name: "Sluice idle, % of a core"}, func(r replicasRow) float64 { return 100 * r.servers.idle }},
			counted("missing", func(r replicasRow) int { return r.lost }),
		},
	}
	for i, count := range p.counts {
		h := head{Name: number(float64(count)) + " subscriptions"}
		if i > 0 {
			h.Base = t.subjects[0].rows[0].Name
		}
		t.subjects = append(t.subjects, one(h, func(ctx context.Context, e env) (replicasRow, error) { return p.round(ctx, e, count) }))
	}
	return t
}

func (p replicasPlan) round(ctx context.Context, e env, count int) (row replicasRow, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.bound, errLimit)
	defer cancel()
	hook, err := listen(ctx)
	if err != nil {
		return row, err
	}
	defer hook.close()
	c := &cluster{}
	defer func() { err = errors.Join(err, c.close()) }()
	b, err := c.begin(ctx, e)
	if err != nil {
		return row, err
	}
	row.count = count
	if row.created, row.refused, err = subscribeMany(ctx, b.api, hook.url, count, "/many/%d/**"); row.refused == 0 && err != nil {
		return row, err
	}
	if err := p.load(ctx, b, hook, &row.manyRow); err != nil {
		return row, err
	}
	if row.consumers, err = b.consumers(ctx); err != nil {
		return row, err
	}
	return row, c.rest(ctx, p.rests, &row)
}

// consumers returns how many consumers JetStream has, of all streams.
func (b *bed) consumers(ctx context.Context) (n int, err error) {
	list := b.js.ListStreams(ctx)
	for info := range list.Info() {
		n += info.State.Consumers
	}
	return n, list.Err()
}

// cluster is three NATS servers and two Sluice servers on them.
type cluster struct {
	nats, servers []*process
	first         *bed // the first Sluice server
}

// begin starts the cluster and returns its first server.
func (c *cluster) begin(ctx context.Context, e env) (*bed, error) {
	const members, servers = 3, 2
	routes, err := freeAddresses(ctx, members)
	if err != nil {
		return nil, err
	}
	var urls []string
	for i, route := range routes {
		dir, err := os.MkdirTemp(e.dir, "")
		if err != nil {
			return nil, err
		}
		proc, err := launchSelf(ctx, memberEnv, member{"n" + strconv.Itoa(i), dir, route, routes}, dir)
		if err != nil {
			return nil, err
		}
		c.nats, urls = append(c.nats, proc), append(urls, proc.nats)
	}
	settings := fmt.Sprintf("nats: {url: %q, replicas: %d}\n%s", strings.Join(urls, ","), members, limits)
	for range servers {
		dir, err := os.MkdirTemp(e.dir, "")
		if err != nil {
			return nil, err
		}
		proc, api, err := serve(ctx, e.binary, dir, settings)
		if err != nil {
			return nil, err
		}
		c.servers = append(c.servers, proc)
		if c.first != nil {
			api.HTTP.CloseIdleConnections()
			continue
		}
		proc.nats = strings.Join(urls, ",")
		if c.first, err = attach(proc, api); err != nil {
			return nil, err
		}
		settings += fmt.Sprintf("secrets: {key_file: %q}\n", filepath.Join(dir, "secrets.key"))
	}
	return c.first, nil
}

// close stops the servers, and then those of NATS.
func (c *cluster) close() error {
	var errs []error
	if c.first != nil {
		c.first.nc.Close()
		c.first.api.HTTP.CloseIdleConnections()
	}
	for _, p := range slices.Concat(c.servers, c.nats) {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// rest measures all processes while nothing happens.
func (c *cluster) rest(ctx context.Context, lasts time.Duration, row *replicasRow) error {
	all := slices.Concat(c.nats, c.servers)
	before := make([]usage, len(all))
	var began time.Time
	for range 2 { // at first until it is quiet
		began = time.Now()
		for i, p := range all {
			before[i] = p.usage()
		}
		select {
		case <-time.After(lasts):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for i, p := range all {
		most, now := &row.servers, p.usage()
		if i < len(c.nats) {
			most = &row.nats
		}
		most.rss = max(most.rss, now.rss)
		most.idle = max(most.idle, (now.cpu-before[i].cpu).Seconds()/time.Since(began).Seconds())
	}
	return nil
}

// memberEnv makes a child process the NATS server that its value, a member in JSON, describes.
const memberEnv = "SLUICE_BENCH_MEMBER"

// member is a NATS server of a cluster, in a process of its own.
type member struct {
	Name   string   `json:"name"`
	Data   string   `json:"data"`
	Route  string   `json:"route"`  // its address for the others
	Routes []string `json:"routes"` // of all
}

func runMember(ctx context.Context, spec string) error {
	var m member
	if err := json.Unmarshal([]byte(spec), &m); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(m.Route)
	if err != nil {
		return err
	}
	opts := &server.Options{
		ServerName: m.Name, Host: host, Port: server.RANDOM_PORT, JetStream: true, StoreDir: filepath.Join(m.Data, "nats"), NoSigs: true, NoLog: true,
		Cluster: server.ClusterOpts{Name: "bench", Host: host},
	}
	if opts.Cluster.Port, err = strconv.Atoi(port); err != nil {
		return err
	}
	for _, route := range m.Routes {
		opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats", Host: route})
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(patience) {
		return errLimit
	}
	if err := writeAddresses(m.Data, addresses{NATS: s.ClientURL()}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// freeAddresses returns addresses at which nothing listens.
func freeAddresses(ctx context.Context, n int) (all []string, err error) {
	var config net.ListenConfig
	for range n {
		l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // nothing was sent
		all = append(all, l.Addr().String())
	}
	return all, nil
}
