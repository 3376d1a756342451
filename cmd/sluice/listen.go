package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	listenWait   = 30 * time.Second       // for the next event, in one request
	listenAtOnce = 16                     // paths that are served at a time
	listenAgain  = time.Second            // between the attempts at one event
	listenWindow = 365 * 24 * time.Hour   // the log's retention is bound enough
	awayShortest = 250 * time.Millisecond // between looks for a server that is away
	awayLongest  = 5 * time.Second
)

// listenCmd forwards events to this machine, as the server would send them (decision 0010).
type listenCmd struct {
	Forward  string            `help:"Where they go, such as http://localhost:3000/hook." required:"" placeholder:"URL"`
	Path     string            `aliases:"pattern" help:"Events of these paths only." default:"/**" placeholder:"PATTERN"`
	Type     []string          `aliases:"types" help:"Events of these types only; a final .* matches what follows." placeholder:"TYPE"`
	NS       string            `name:"ns" help:"The namespace." default:"default" placeholder:"NAME"`
	Since    string            `help:"Begin with events that are there: all, a sequence, a time, or how long ago, such as 10m." default:"new" placeholder:"WHEN"`
	Secret   string            `help:"Sign with this secret instead of a new one." placeholder:"SECRET"`
	Envelope string            `help:"cloudevents, cloudevents-binary, fact, attempt or raw." placeholder:"NAME"`
	Scheme   string            `help:"Signature: standard, t-sha256 or header." placeholder:"NAME" enum:",standard,t-sha256,header" default:""`
	Header   map[string]string `help:"Send this header along; repeatable." placeholder:"K=V" mapsep:"none"`
	Timeout  time.Duration     `help:"Of one attempt; at most 1m." default:"15s" placeholder:"15s"`
	Retries  int               `help:"Try again so often, a second apart." default:"0"`
}

// Run forwards until the context ends.
func (c *listenCmd) Run(ctx context.Context, s *session) error {
	sender := endpoint.New(endpoint.Options{AllowLoopback: true, Version: version()})
	defer sender.Close()
	if err := c.check(ctx, sender); err != nil {
		return err
	}
	api, err := s.client()
	if err != nil {
		return err
	}
	sub, err := c.subscribe(ctx, api)
	if err != nil {
		return err
	}
	l := &listener{cmd: c, session: s, api: api, sender: sender, sub: sub}
	defer l.unsubscribe(ctx)
	if err := l.sayWhere(); err != nil {
		return err
	}
	return l.run(ctx)
}

func (c *listenCmd) check(ctx context.Context, sender *endpoint.Sender) error {
	if err := sender.Check(ctx, sluice.Endpoint{URL: c.Forward, Headers: c.Header}); err != nil {
		return usagef("--forward %q: %w; write a URL of this machine, such as http://localhost:3000/hook", c.Forward, err)
	}
	if c.Retries < 0 {
		return usagef("--retries %d: write 0 or more", c.Retries)
	}
	if _, err := sluice.ParsePattern(c.Path); err != nil {
		return usageError{err}
	}
	return nil
}

// start returns where the subscription begins.
func (c *listenCmd) start(now time.Time) string {
	return behind(c.Since, now)
}

// subscribe makes the subscription. It is paused, so that the server sends nothing itself, and
// has an id of its own, so that it is never another's for the same events.
func (c *listenCmd) subscribe(ctx context.Context, api *client.Client) (sluice.Subscription, error) {
	var random [6]byte
	rand.Read(random[:]) // never returns an error
	id := "listen-" + hex.EncodeToString(random[:])
	off := false
	sub, _, err := api.CreateSubscription(ctx, client.SubscriptionSpec{
		ID: id, Namespace: c.NS, Pattern: sluice.Pattern(c.Path), Filter: sluice.Filter{Types: c.Type}, Start: c.start(time.Now()),
		Endpoint: sluice.Endpoint{URL: "https://listen.invalid/" + id, Headers: c.Header, Secret: c.Secret},
		Policy: &sluice.Policy{
			Timeout: sluice.Duration(c.Timeout), Envelope: sluice.Envelope(c.Envelope),
			Signature: sluice.Signature{Scheme: sluice.Scheme(c.Scheme)},
		},
		ReplayWindow: sluice.Duration(listenWindow), Enabled: &off,
		Description: "made by sluice listen, deleted when that ends", Metadata: map[string]string{"temporary": "listen"},
	})
	if err != nil {
		return sub, err
	}
	sub.Secrets = []sluice.Secret{{Value: sub.Endpoint.Secret, CreatedAt: sub.CreatedAt}}
	sub.Endpoint.URL = c.Forward
	return sub, nil
}

// listener forwards the events of its subscription.
type listener struct {
	cmd     *listenCmd
	session *session
	api     *client.Client
	sender  *endpoint.Sender
	sub     sluice.Subscription

	mu sync.Mutex // of what is printed
}

func (l *listener) sayWhere() error {
	if l.session.json() {
		return l.line(map[string]string{"subscription": l.sub.ID, "forward": l.cmd.Forward, "secret": l.sub.Endpoint.Secret})
	}
	return l.session.say("Forwarding %s in %s to %s. The requests are signed with\n\n  %s\n", l.sub.Pattern, l.sub.Namespace, l.cmd.Forward, l.sub.Endpoint.Secret)
}

// run forwards page after page. A server that is away is waited for, and asked for what comes
// after the last event.
func (l *listener) run(ctx context.Context) error {
	after, pause := "", awayShortest
	for ctx.Err() == nil {
		page, err := l.api.SubscriptionEvents(ctx, l.sub.ID, client.WindowQuery{After: after, Wait: listenWait})
		switch code := sluice.CodeOf(err); {
		case err == nil:
			pause = awayShortest
			if err := l.forward(ctx, page.Events); err != nil {
				return err
			}
			after = page.NextAfter
		case ctx.Err() != nil:
		case code == sluice.WindowExceeded:
			after = l.skip(err, after)
		case code == sluice.Unavailable || code == sluice.Internal:
			if pause == awayShortest {
				l.session.complain("sluice: the server is away; waiting for it: %v", err)
			}
			l.await(ctx, pause)
			pause = min(2*pause, awayLongest)
		default:
			return fmt.Errorf("listen: %w", err)
		}
	}
	return nil
}

// await waits, and then looks whether the server has come back under another address.
func (l *listener) await(ctx context.Context, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return
	}
	if api, err := l.session.client(); err == nil {
		l.api = api
	}
}

// skip returns where to go on when events were lost before they could be fetched.
func (l *listener) skip(err error, after string) string {
	next := after
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		if oldest, ok := e.Details["oldest_available_seq"].(float64); ok && oldest >= 1 {
			next = strconv.FormatUint(uint64(oldest)-1, 10)
		}
	}
	l.session.complain("sluice: events between %s and %s left the log before they were forwarded", after, next)
	return next
}

// forward sends a page's events: those of a path in their order, several paths at once.
func (l *listener) forward(ctx context.Context, events []sluice.Event) error {
	lanes := map[sluice.Path][]*sluice.Event{}
	var order []sluice.Path
	for i := range events {
		path := events[i].Path
		if lanes[path] == nil {
			order = append(order, path)
		}
		lanes[path] = append(lanes[path], &events[i])
	}
	errs := make([]error, len(order))
	var sending sync.WaitGroup
	free := make(chan struct{}, listenAtOnce)
	for i, path := range order {
		free <- struct{}{}
		sending.Go(func() {
			defer func() { <-free }()
			for _, ev := range lanes[path] {
				errs[i] = errors.Join(errs[i], l.deliver(ctx, ev))
			}
		})
	}
	sending.Wait()
	return errors.Join(errs...)
}

// deliver makes the attempts at one event and prints them. When the context ends it begins no other; the attempt under way
// has the grace time to be answered, and is printed. An error says that nothing can be printed.
func (l *listener) deliver(ctx context.Context, ev *sluice.Event) error {
	for number := 1; ctx.Err() == nil; number++ {
		outcome, err := l.attempt(ctx, ev, number)
		if err != nil || outcome == sluice.Delivered || number > l.cmd.Retries {
			return err
		}
		select {
		case <-time.After(listenAgain):
		case <-ctx.Done():
		}
	}
	return nil
}

// attempt makes one attempt and prints it.
func (l *listener) attempt(ctx context.Context, ev *sluice.Event, number int) (sluice.Outcome, error) {
	ctx, done := outliving(ctx, grace)
	defer done()
	a := l.sender.Send(ctx, &l.sub, ev, number)
	return a.Outcome, l.report(a)
}

func (l *listener) report(a sluice.Attempt) error {
	if l.session.json() {
		return l.line(a)
	}
	answer := strconv.Itoa(a.Status)
	if a.Status == 0 || a.Status >= 300 && a.Status < 400 {
		answer = a.Error
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session.say("%s  %s  %s  %s  → %s  %s", a.StartedAt.Local().Format(time.TimeOnly), a.Type, a.Path, a.EventID,
		answer, a.Duration.Std().Round(100*time.Microsecond))
}

// line prints a value as one line of JSON.
func (l *listener) line(value any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session.printLine(value)
}

// unsubscribe deletes the subscription, however the command ends.
func (l *listener) unsubscribe(ctx context.Context) {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := l.api.DeleteSubscription(limit, l.sub.ID)
	if err != nil && sluice.CodeOf(err) != sluice.SubscriptionMissing {
		l.session.complain("sluice: subscription %s is left behind: %v; delete it with sluice sub rm %s", l.sub.ID, err, l.sub.ID)
	}
}
