package streamsub

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// mostListed limits the streams that Streams lists.
const mostListed = 10_000

// Create creates a subscription. If the caller has an equal one already, it returns that, and
// created is false. maker reports whether an existing subscription belongs to the caller. Codes:
// INVALID_REQUEST; WEBHOOK_URL_REJECTED; SUBSCRIPTION_ALREADY_EXISTS. Codes of package sluice:
// QuotaExceeded; NotFound if there is no such namespace. New messages count from the end of the log
// at the time of the call. The result is stored, and not yet processed. Create is idempotent for
// the owner; it refuses an equal subscription of another caller.
func (e *Engine) Create(ctx context.Context, k Key, c Config, who sluice.Caller, maker func(*Subscription) bool) (s Subscription, created bool, err error) {
	if c, err = c.Normal(k); err != nil {
		return s, false, err
	}
	for range tries {
		stored, _, err := e.load(ctx, k.String())
		if err == nil {
			if !reflect.DeepEqual(stored.Config, c) || !maker(&stored) {
				return stored, false, refuse(Exists, "a different subscription with this ID exists")
			}
			return stored, false, nil
		}
		if !isGone(err) {
			return stored, false, err
		}
		s, err = e.create(ctx, k, c, who)
		if sluice.CodeOf(err) == sluice.Conflict {
			continue
		}
		return s, err == nil, err
	}
	return s, false, sluice.Errorf(sluice.Unavailable, "subscription is being created and deleted concurrently; retry")
}

func (e *Engine) create(ctx context.Context, k Key, c Config, who sluice.Caller) (Subscription, error) {
	if err := e.checkURL(ctx, c); err != nil {
		return Subscription{}, err
	}
	last, err := e.ports.Logs.LastSeq(ctx, k.Namespace)
	if err != nil {
		return Subscription{}, err
	}
	s := Subscription{
		Key: k, Config: c, Incarnation: rand.Text(), Principal: who.Principal, Grant: who.Binding(), CreatedAt: e.opts.Now().UTC().Round(0),
		Floor: last, Base: last, Links: map[string]Link{},
	}
	for _, path := range c.Streams {
		tail, err := e.begin(ctx, &s, path)
		if err != nil {
			return s, err
		}
		s.Links[path] = Link{Explicit: true, Acked: tail}
	}
	revision, err := e.admit(ctx, &s)
	if err != nil {
		return s, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.know(k.String(), s, revision)
	e.start(k.String())
	return s, nil
}

// admit counts a new subscription, asks its webhook for agreement if required, and stores it. It
// returns the stored revision. If it fails to store the subscription, it undoes the count.
func (e *Engine) admit(ctx context.Context, s *Subscription) (revision uint64, err error) {
	if q := e.ports.Quota; q != nil {
		if err := q.Enter(ctx, s.Sends()); err != nil {
			return 0, err
		}
		defer func() {
			if err != nil {
				q.Leave(s.Sends().ID)
			}
		}()
	}
	if err := e.shakeHands(ctx, s); err != nil {
		return 0, err
	}
	failed, err := e.ports.Account.Made(ctx, s)
	if err != nil {
		return 0, err
	}
	if revision, err = e.ports.Records.Put(ctx, s.String(), *s, 0); err != nil {
		failed(err)
	}
	return revision, err
}

// shakeHands asks a webhook for its agreement, if the configuration requires that. Code
// WEBHOOK_URL_REJECTED if it does not agree.
func (e *Engine) shakeHands(ctx context.Context, s *Subscription) (err error) {
	if !s.Config.Handshake {
		return nil
	}
	s.Agreed, err = e.ports.Post.Handshake(ctx, s.Sends())
	if sluice.CodeOf(err) == sluice.Unprocessable {
		return refuse(URLRejected, "%s", err)
	}
	return err
}

// checkURL returns an error if requests to a webhook are never allowed.
func (e *Engine) checkURL(ctx context.Context, c Config) error {
	if c.Kind != Webhook {
		return nil
	}
	err := sluice.CheckURL("webhook.url", c.URL)
	if err == nil {
		err = e.ports.Post.Check(ctx, c.URL)
	}
	if code := sluice.CodeOf(err); err == nil || code == sluice.Unavailable || code == sluice.Internal {
		return err
	}
	return refuse(URLRejected, "%s", err)
}

// Get returns a subscription. Code SUBSCRIPTION_NOT_FOUND. It checks no rights. The record is from
// the store, not from memory.
func (e *Engine) Get(ctx context.Context, k Key) (Subscription, error) {
	s, _, err := e.load(ctx, k.String())
	return s, err
}

// Streams returns the streams of a subscription that its owner may see, ordered by path. It lists
// about mostListed of those without new messages. Code Unavailable if the log is not read in time.
// The cost is O(paths of the namespace).
func (e *Engine) Streams(ctx context.Context, s *Subscription) ([]Stream, error) {
	v, err := e.view(ctx, s, Input{})
	if err != nil {
		return nil, err
	}
	for path := range s.Links {
		v.Tails[path] += 0 // adds the path, so that it is listed, pending or not
	}
	e.mu.Lock()
	t := e.follow(s.Namespace)
	e.mu.Unlock()
	if t == nil {
		return nil, sluice.Errorf(sluice.Unavailable, "the server is stopping")
	}
	t.mu.Lock()
	t.since(0, func(one tail) {
		relative, below := s.Relative(one.path)
		if below && one.seq <= s.Floor && len(v.Tails) < mostListed && s.matches(relative) {
			v.Tails[relative] = one.seq
		}
	})
	t.mu.Unlock()
	return e.listed(ctx, s, v)
}

// listed returns the streams of a view that the subscription's owner may see, ordered by path.
func (e *Engine) listed(ctx context.Context, s *Subscription, v View) ([]Stream, error) {
	var all []Stream
	for path, tail := range v.Tails {
		explicit := s.Links[path].Explicit
		if explicit || s.Follows(path) && e.passes(s, path, tail) == nil {
			all = append(all, Stream{Path: path, Explicit: explicit, Acked: s.cursor(path, tail), Tail: tail})
		}
	}
	if !s.Owner().Unbounded() {
		if err := e.verify(ctx, s, all, v); err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(p Stream) bool { return !p.Explicit && v.shown(p.Path) == 0 })
	}
	slices.SortFunc(all, func(a, b Stream) int { return cmp.Compare(a.Path, b.Path) })
	return all, nil
}

// Delete removes a subscription. Code SUBSCRIPTION_NOT_FOUND. Tokens of its wakes are worthless
// from then on: a later subscription with the ID has another incarnation.
func (e *Engine) Delete(ctx context.Context, k Key, by sluice.Principal) error {
	return e.remove(ctx, k.String(), by, func(*Subscription) error { return nil })
}

// remove removes a subscription, unless check returns an error. It writes the ledger entry first.
func (e *Engine) remove(ctx context.Context, key string, by sluice.Principal, check func(*Subscription) error) error {
	failed := func(error) {}
	for i := range tries {
		s, revision, err := e.load(ctx, key)
		if err == nil {
			err = check(&s)
		}
		if err == nil && i == 0 {
			failed, err = e.ports.Account.Removed(ctx, &s, by)
		}
		if err == nil {
			err = e.ports.Records.Delete(ctx, key, revision)
		}
		if sluice.CodeOf(err) == sluice.Conflict {
			continue
		}
		if err != nil {
			failed(err)
		}
		return err
	}
	err := sluice.Errorf(sluice.Unavailable, "subscription is being changed concurrently; retry")
	failed(err)
	return err
}

// Link adds named streams to a subscription. Codes: SUBSCRIPTION_NOT_FOUND; INVALID_REQUEST.
// Linking a linked stream changes nothing. During a wake it does not join the wake.
func (e *Engine) Link(ctx context.Context, k Key, paths []string) error {
	paths, err := k.Normal(paths)
	if err != nil {
		return err
	}
	_, _, err = e.apply(ctx, k.String(), Input{Do: Linked, Paths: paths}, nil)
	return err
}

// Unlink removes a named stream from a subscription; it ignores any other path. Code
// SUBSCRIPTION_NOT_FOUND. Unlinking twice is no error.
func (e *Engine) Unlink(ctx context.Context, k Key, path string) error {
	_, _, err := e.apply(ctx, k.String(), Input{Do: Unlinked, Paths: []string{bare(path)}}, nil)
	return err
}

// Claim is a worker's successful claim.
type Claim struct {
	Wake       string
	Generation uint64
	Token      string
	Streams    []Told
	Lease      time.Duration
}

// Claim gives the wake of a pull-wake subscription to a worker. Codes: SUBSCRIPTION_NOT_FOUND;
// INVALID_REQUEST; ALREADY_CLAIMED; NO_PENDING_WORK. Streams are those of the wake and other linked
// ones, up to mostNamed. Of several workers one gets the wake; the refusal tells the others its
// holder.
func (e *Engine) Claim(ctx context.Context, k Key, worker string) (Claim, error) {
	if worker == "" || len(worker) > maxWorker {
		return Claim{}, invalid("worker: use a name of 1 to %d bytes", maxWorker)
	}
	s, _, err := e.apply(ctx, k.String(), Input{Do: Claimed, Worker: worker}, func(s *Subscription) error {
		switch e.holds(s) {
		case model.Lost:
			return Missing()
		case model.Undecided:
			return model.PermissionsUnknown()
		case model.Pass, model.Withhold:
		}
		return nil
	})
	if err != nil {
		return Claim{}, err
	}
	badge, err := token(e.ports.Keys, &s, e.opts.Now())
	return Claim{Wake: s.Wake.ID, Generation: s.Generation, Token: badge, Streams: e.told(&s), Lease: s.Config.Lease}, err
}

// Call is a worker's report. Its token must have been issued for the generation of the active wake.
type Call struct {
	Kind       Kind // the kind of subscription that the endpoint of this request serves
	Token      string
	Wake       string
	Generation uint64
	Acks       []Ack
	Done       bool
	Release    bool
}

// Authentic returns an error unless a token was issued for the subscription of a key and is not
// expired. Codes TOKEN_INVALID; TOKEN_EXPIRED.
func (e *Engine) Authentic(k Key, token string) error {
	_, err := e.badge(k, token)
	return err
}

func (e *Engine) badge(k Key, token string) (badge, error) {
	return readToken(e.ports.Keys, token, k, e.opts.Now())
}

// Call handles a worker's report, and reports whether it started another wake. Codes TOKEN_INVALID;
// TOKEN_EXPIRED; SUBSCRIPTION_NOT_FOUND; INVALID_REQUEST; FENCED; INVALID_OFFSET. All acks are
// stored or none. Repeating a report after Done is FENCED; repeating one without it is
// INVALID_OFFSET only if another report has moved the cursor on.
func (e *Engine) Call(ctx context.Context, k Key, c Call) (woken bool, err error) {
	b, err := e.badge(k, c.Token)
	if err != nil {
		return false, err
	}
	in := Input{Do: Called, Wake: c.Wake, Generation: c.Generation, Done: c.Done}
	if c.Release {
		in.Do = Released
	}
	for _, a := range c.Acks {
		in.Acks = append(in.Acks, Ack{Path: bare(a.Path), Offset: a.Offset})
	}
	_, woken, err = e.apply(ctx, k.String(), in, func(s *Subscription) error {
		switch {
		case s.Incarnation != b.Incarnation:
			return Missing()
		case s.Config.Kind != c.Kind:
			return invalid("not supported for a subscription of type %s", s.Config.Kind)
		case s.Generation != b.Generation:
			return refuse(Fenced, notYours)
		}
		return nil
	})
	return woken, err
}

// Forget removes all known subscriptions of a namespace that is about to be deleted. Without Run it
// knows none. The replica that owns a subscription which was missed removes it as an orphan.
func (e *Engine) Forget(ctx context.Context, namespace string, by sluice.Principal) error {
	e.mu.Lock()
	var keys []string
	if f := e.logs[namespace]; f != nil {
		keys = slices.Collect(maps.Keys(f.entries))
	}
	e.mu.Unlock()
	for _, key := range keys {
		if err := e.remove(ctx, key, by, func(*Subscription) error { return nil }); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}
