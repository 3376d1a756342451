package quota

import (
	"context"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// patience limits how long Enter waits until the existing subscriptions are known.
const patience = 10 * time.Second

// Counts limits the subscriptions of a namespace, and of a principal in all namespaces together, of
// every mode and protocol. Within this process the limit is exact. Across replicas it can be
// exceeded by the subscriptions that other replicas create before this one learns of them. It is
// safe for concurrent use.
type Counts struct {
	most  Most
	known chan struct{} // closed when all existing ones have been reported

	mu sync.Mutex
	tally
}

// tally is a set of subscriptions and their sums. The zero value is empty.
type tally struct {
	subs map[string]counted // by id
	of   map[string]int     // by namespace
	by   map[creator]*made  // only of creators that are limited
}

// made is a creator's subscriptions in a namespace.
type made struct {
	n      int
	toHost map[string]int
}

// Most is the limits; 0: any number.
type Most struct {
	Namespace int // of one namespace
	Principal int // of one principal, created under its grants; or of all callers without a token, together
	Host      int // how many of those may send to one host without its consent

	// Answers returns the principal that is responsible for a subscription created under a grant;
	// nil: its creator.
	Answers func(maker sluice.Caller, namespace string) sluice.Principal
}

// counted is a subscription that is stored, or is about to be.
type counted struct {
	maker

	told bool // it is known to be stored
}

// maker is a subscription's creator and host.
type maker struct {
	creator

	created time.Time // of the subscription
	host    string    // its destination; "": with consent, or this machine
	// tokenHost is the host of its token endpoint, which is not asked for consent. "": it has none,
	// or its host is empty or the same as the one above.
	tokenHost string
}

// creator is the creator of subscriptions in a namespace.
type creator struct {
	namespace string
	caller    sluice.Caller
}

// bounded reports whether the creator is limited. The holder of a grant is, and so are callers
// without a token, all together, in a namespace that is open to them. The operator is not.
func (m creator) bounded() bool { return m.caller.Grant != "" || m.caller.Unknown() }

func makerOf(sub *sluice.Subscription) maker {
	m := maker{creator: creator{sub.Namespace, sluice.Caller{Principal: sluice.Principal(sub.CreatedBy), Grant: sub.Grant}}, created: sub.CreatedAt}
	if !sub.Endpoint.Handshake {
		m.host = hostOf(sub.Endpoint.URL)
	}
	if auth := sub.Endpoint.Auth; auth != nil {
		if host := hostOf(auth.TokenURL); host != m.host {
			m.tokenHost = host
		}
	}
	return m
}

// hostOf returns the host of a URL; "" for this machine.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if isLoopback(host) {
		return ""
	}
	return host
}

// isLoopback reports whether a host is this machine, which need not consent.
func isLoopback(host string) bool {
	addr, _ := netip.ParseAddr(host) // a name is the zero address
	return host == "localhost" || addr.IsLoopback()
}

// NewCounts returns empty counts.
func NewCounts(most Most) *Counts {
	return &Counts{most: most, known: make(chan struct{})}
}

// Set enters a stored subscription.
func (c *Counts) Set(sub *sluice.Subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(sub.ID, counted{makerOf(sub), true})
}

// Remove removes a subscription.
func (c *Counts) Remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(id)
}

// Of returns the number of subscriptions of a namespace.
func (c *Counts) Of(namespace string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[namespace]
}

// Created is a model.Created.
func (c *Counts) Created(namespace, id string) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sub, ok := c.subs[id]
	return sub.created, ok && sub.namespace == namespace
}

// CaughtUp tells c that Set has been called for every stored subscription; Enter waits for it.
func (c *Counts) CaughtUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.known:
	default:
		close(c.known)
	}
}

// Enter counts a subscription that is about to be stored; a second call for it changes nothing.
// Codes: QuotaExceeded if its namespace, or the responsible principal, has reached a limit;
// Unavailable if the counts are not known yet.
func (c *Counts) Enter(ctx context.Context, sub *sluice.Subscription) error {
	if err := c.wait(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.enter(sub, &c.tally, nil)
}

// Trial returns a function like Enter that reserves nothing: it counts each subscription as if
// those of its earlier calls were about to be stored, and leaves c unchanged. The function is not
// safe for concurrent use.
func (c *Counts) Trial() func(context.Context, *sluice.Subscription) error {
	var tried tally
	return func(ctx context.Context, sub *sluice.Subscription) error {
		if err := c.wait(ctx); err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.enter(sub, &tried, &tried)
	}
}

// enter counts a subscription in the tally in, unless it is counted already. The limits hold for
// the counts and the trial tried together; nil: no trial.
func (c *Counts) enter(sub *sluice.Subscription, in, tried *tally) error {
	all := []*tally{&c.tally}
	if tried != nil {
		all = append(all, tried)
	}
	n := 0
	for _, t := range all {
		if _, ok := t.subs[sub.ID]; ok {
			return nil
		}
		n += t.of[sub.Namespace]
	}
	if most := c.most.Namespace; most > 0 && n >= most {
		return sluice.Errorf(sluice.QuotaExceeded,
			"namespace %s has %d subscriptions, the limit; delete some, or have limits.subscriptions_per_namespace raised", sub.Namespace, n).
			With("limit", most).With("unit", "subscriptions").With("allowed", 0)
	}
	is := makerOf(sub)
	who, n, toHost := c.madeFor(is, is.host, all...)
	if c.most.Principal > 0 && n >= c.most.Principal {
		return sluice.Errorf(sluice.QuotaExceeded,
			"%s has %d subscriptions, the limit; delete some, or have limits.subscriptions_per_principal raised", who, n).
			With("limit", c.most.Principal).With("unit", "subscriptions").With("allowed", 0)
	}
	if err := c.checkHost(is.host, who, toHost); err != nil {
		return err
	}
	who, _, toHost = c.madeFor(is, is.tokenHost, all...)
	if err := c.checkHost(is.tokenHost, who, toHost); err != nil {
		return err
	}
	in.put(sub.ID, counted{maker: is})
	return nil
}

// Move counts a stored subscription under its new destination. Code QuotaExceeded if the
// responsible principal has reached the limit for that host.
func (c *Counts) Move(sub *sluice.Subscription) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	is, was := makerOf(sub), c.subs[sub.ID]
	for _, host := range []string{is.host, is.tokenHost} {
		if host == was.host || host == was.tokenHost {
			continue
		}
		who, _, toHost := c.madeFor(is, host, &c.tally)
		if err := c.checkHost(host, who, toHost); err != nil {
			return err
		}
	}
	c.put(sub.ID, counted{is, was.told})
	return nil
}

func (c *Counts) checkHost(host string, who sluice.Principal, toHost int) error {
	if host == "" || c.most.Host == 0 || toHost < c.most.Host {
		return nil
	}
	return sluice.Errorf(sluice.QuotaExceeded,
		"%s has %d subscriptions that send to this host without its consent, the limit; use endpoint.handshake, or have limits.subscriptions_per_host raised", who, toHost).
		With("limit", c.most.Host).With("unit", "subscriptions").With("allowed", 0)
}

// madeFor returns the principal that is responsible for a maker, the principal's number of
// subscriptions, and how many of them send to a host. All are zero for the operator.
func (c *Counts) madeFor(m maker, host string, all ...*tally) (who sluice.Principal, n, toHost int) {
	if !m.bounded() {
		return "", 0, 0
	}
	who = c.answers(m.creator)
	for _, t := range all {
		for other, has := range t.by {
			if c.answers(other) == who {
				n += has.n
				toHost += has.toHost[host]
			}
		}
	}
	return who, n, toHost
}

func (c *Counts) answers(m creator) sluice.Principal {
	if c.most.Answers == nil || m.caller.Unknown() {
		return m.caller.Principal
	}
	return c.most.Answers(m.caller, m.namespace)
}

// Leave undoes Enter: the subscription was not stored.
func (c *Counts) Leave(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.subs[id].told {
		c.drop(id)
	}
}

func (c *Counts) wait(ctx context.Context) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-c.known:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		return sluice.Errorf(sluice.Unavailable, "subscriptions have not loaded yet; retry")
	}
}

func (t *tally) put(id string, sub counted) {
	t.drop(id)
	if t.subs == nil {
		*t = tally{map[string]counted{}, map[string]int{}, map[creator]*made{}}
	}
	t.subs[id] = sub
	t.of[sub.namespace]++
	if !sub.bounded() {
		return
	}
	has := t.by[sub.creator]
	if has == nil {
		has = &made{toHost: map[string]int{}}
		t.by[sub.creator] = has
	}
	has.n++
	has.toHost[sub.host]++
	if sub.tokenHost != "" {
		has.toHost[sub.tokenHost]++
	}
}

func (t *tally) drop(id string) {
	sub, ok := t.subs[id]
	if !ok {
		return
	}
	delete(t.subs, id)
	less(t.of, sub.namespace)
	if !sub.bounded() {
		return
	}
	has := t.by[sub.creator]
	less(has.toHost, sub.host)
	if sub.tokenHost != "" {
		less(has.toHost, sub.tokenHost)
	}
	if has.n--; has.n == 0 {
		delete(t.by, sub.creator)
	}
}

// less decrements the number of a key, and removes the key at 0.
func less(of map[string]int, key string) {
	if of[key]--; of[key] == 0 {
		delete(of, key)
	}
}

// WhenAll returns n functions; do is called once all of them have been called.
func WhenAll(n int, do func()) []func() {
	var left atomic.Int64
	left.Store(int64(n))
	all := make([]func(), n)
	for i := range all {
		all[i] = sync.OnceFunc(func() {
			if left.Add(-1) == 0 {
				do()
			}
		})
	}
	return all
}
