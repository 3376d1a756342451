package streamsub

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"reflect"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// tries limits the retries after concurrent changes.
const tries = 50

// scan is a subscription's position in the tails of its namespace.
type scan struct {
	incarnation string
	at          uint64            // everything up to here was read
	from        uint64            // the scan began behind this sequence
	hot         map[string]uint64 // the streams that match the pattern and end behind Floor, with their ends
}

// apply decides a subscription's next state and stores it. After a concurrent change it decides
// again. check sees the stored state before each decision, and may refuse with an error; nil: none.
// A refusal of Step is returned with the state that was stored with it. Each retry decides about
// the same input, so the input must not depend on the state.
func (e *Engine) apply(ctx context.Context, key string, in Input, check func(*Subscription) error) (s Subscription, woken bool, err error) {
	in.WakeID, in.Jitter = "w_"+rand.Text(), mathrand.Float64() //nolint:gosec // the jitter is no secret
	for i := range tries {
		stored, revision, err := e.load(ctx, key)
		if err == nil && check != nil {
			err = check(&stored)
		}
		if err != nil {
			return stored, false, err
		}
		s, woken, err = e.decide(ctx, key, stored, revision, in)
		if sluice.CodeOf(err) != sluice.Conflict {
			return s, woken, err
		}
		select {
		case <-ctx.Done():
			return s, false, ctx.Err()
		case <-time.After(time.Duration(mathrand.Int64N(int64(i+1) * int64(time.Millisecond)))): //nolint:gosec // not a secret
		}
	}
	return s, false, sluice.Errorf(sluice.Unavailable, "subscription is being changed concurrently; retry")
}

// load reads a subscription. Code SUBSCRIPTION_NOT_FOUND.
func (e *Engine) load(ctx context.Context, key string) (Subscription, uint64, error) {
	s, revision, err := e.ports.Records.Get(ctx, key)
	if sluice.CodeOf(err) == sluice.NotFound {
		err = Missing()
	}
	if s.Links == nil {
		s.Links = map[string]Link{}
	}
	return s, revision, err
}

// decide makes one decision and stores its result. Even a refusal may change the state.
func (e *Engine) decide(ctx context.Context, key string, stored Subscription, revision uint64, in Input) (Subscription, bool, error) {
	e.mu.Lock()
	e.know(key, stored, revision)
	e.mu.Unlock()
	v, err := e.look(ctx, &stored, in)
	if err != nil {
		return stored, false, err
	}
	next, woken, refused := Step(stored, in, v, e.opts.Now().UTC().Round(0))
	if !reflect.DeepEqual(stored, next) {
		revision, err := e.ports.Records.Put(ctx, key, next, revision)
		if err != nil {
			return stored, false, err
		}
		e.mu.Lock()
		e.know(key, next, revision)
		e.start(key)
		e.mu.Unlock()
	}
	return next, woken, refused
}

// look returns the view of the log for a decision. If the decision may start a wake, the view has
// no stream that does not exist or that the gate does not pass. It goes on until the streams that a
// wake would name are all verified: removing one may bring another into the first mostNamed.
func (e *Engine) look(ctx context.Context, s *Subscription, in Input) (View, error) {
	v, err := e.view(ctx, s, in)
	if err != nil || !in.mayWake() {
		return v, err
	}
	looked := map[string]bool{}
	for {
		var todo []Stream
		for _, p := range Named(Pending(s, v)) {
			if !looked[p.Path] {
				todo = append(todo, p)
				looked[p.Path] = true
			}
		}
		if len(todo) == 0 {
			return v, nil
		}
		if err := e.verify(ctx, s, todo, v); err != nil {
			return v, err
		}
	}
}

// view returns the present tails of a subscription's streams. It first waits until this process has
// read the log up to its present end. Code Unavailable if that takes longer than catchUpLimit, or
// the engine does not run.
func (e *Engine) view(ctx context.Context, s *Subscription, in Input) (View, error) {
	last, err := e.ports.Logs.LastSeq(ctx, s.Namespace)
	if err != nil {
		return View{}, err
	}
	e.mu.Lock()
	t := e.follow(s.Namespace)
	e.mu.Unlock()
	if t == nil {
		return View{}, sluice.Errorf(sluice.Unavailable, "the server is stopping")
	}
	err = t.reach(ctx, last, func(ctx context.Context, from uint64) (uint64, error) {
		return e.ports.Logs.NextSeq(ctx, s.Namespace, ">", from)
	})
	if err != nil {
		return View{}, err
	}
	v := e.known(t, s)
	switch {
	case v.At < last: // the tails were reset since
		return v, sluice.Errorf(sluice.Unavailable, goneLooksLike)
	case v.At > last && s.beyond(last): // the log was recreated, or lost its end
		v.At = last
	}
	if err := e.viewAcked(ctx, t, s, in, v); err != nil {
		return v, err
	}
	return v, e.viewLinked(ctx, s, in, v)
}

// viewAcked adds the acknowledged streams that the subscription's owner may still see, and removes
// the others: accepting or refusing an offset reveals where a stream ends.
func (e *Engine) viewAcked(ctx context.Context, t *tails, s *Subscription, in Input, v View) error {
	for _, a := range in.Acks {
		t.mu.Lock()
		tail := t.tailOf(s.Path(a.Path))
		t.mu.Unlock()
		var seen uint64
		err := e.passes(s, a.Path, tail)
		if err == nil && tail > 0 && (s.Wake == nil || a.Offset > s.Wake.Snapshot[a.Path]) { // beyond the end in the notice
			seen, err = e.ports.Streams.Visible(ctx, s.Owner(), s.Namespace, s.Path(a.Path), tail)
		} else {
			seen = tail
		}
		switch {
		case err == nil && (seen > 0 || tail == 0):
			v.Tails[a.Path] = tail
		case err == nil || errors.Is(err, errWithheld):
			delete(v.Tails, a.Path)
		default:
			return err
		}
	}
	return nil
}

// errWithheld is the error for a stream that the subscription's owner may not see.
var errWithheld = errors.New("the stream is not visible")

// passes returns errWithheld unless the gate permits a subscription's owner to know where a stream
// ends.
func (e *Engine) passes(s *Subscription, path string, tail uint64) error {
	switch e.ports.Gate.Shows(s.Owner(), s.Namespace, s.Path(path), tail) {
	case model.Pass:
		return nil
	case model.Undecided:
		return model.PermissionsUnknown()
	case model.Withhold, model.Lost:
	}
	return errWithheld
}

// viewLinked adds the streams that the input links.
func (e *Engine) viewLinked(ctx context.Context, s *Subscription, in Input, v View) (err error) {
	if in.Do != Linked {
		return nil
	}
	for _, path := range in.Paths {
		if v.Tails[path], err = e.begin(ctx, s, path); err != nil {
			return err
		}
	}
	return nil
}

// begin returns the end of a stream to be linked. It returns 0, as for a stream that does not
// exist, if the subscription's owner may see nothing of the stream.
func (e *Engine) begin(ctx context.Context, s *Subscription, path string) (uint64, error) {
	tail, _, err := e.ports.Streams.Tail(ctx, s.Namespace, s.Path(path))
	if err != nil || tail == 0 {
		return 0, err
	}
	seen, err := e.ports.Streams.Visible(ctx, s.Owner(), s.Namespace, s.Path(path), tail)
	if err != nil || seen == 0 {
		return 0, err
	}
	return tail, nil
}

// known returns the tails as far as this process has read the log. A scan of a subscription reads
// only the paths that changed since the last one.
func (e *Engine) known(t *tails, s *Subscription) View {
	e.mu.Lock()
	ent := e.entries[s.String()]
	e.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	look := &scan{}
	if ent != nil {
		look = &ent.view
	}
	look.refresh(s, t)
	v := View{At: t.at, Tails: make(map[string]uint64, len(look.hot)+len(s.Links)), Shown: map[string]uint64{}}
	for path, seq := range look.hot {
		if seq <= s.Floor {
			delete(look.hot, path)
			continue
		}
		v.Tails[path] = seq
	}
	for path := range s.Links {
		if seq := t.tailOf(s.Path(path)); seq > 0 {
			v.Tails[path] = seq
		}
	}
	return v
}

// refresh adds the changes since the last scan. It starts again if the subscription or the log is
// another one.
func (c *scan) refresh(s *Subscription, t *tails) {
	if c.incarnation != s.Incarnation || c.from > s.Floor || c.at > t.at {
		*c = scan{incarnation: s.Incarnation, at: s.Floor, from: s.Floor, hot: map[string]uint64{}}
	}
	newest := c.at
	t.since(c.at, func(one tail) {
		newest = max(newest, one.seq)
		if relative, below := s.Relative(one.path); below && s.matches(relative) {
			c.hot[relative] = one.seq
		}
	})
	c.at = newest
}

// verify removes from a view those of the streams that do not exist or must stay hidden, and sets
// the visible ends of the others. It looks up at most looking streams at a time. After an error the
// view is incomplete.
func (e *Engine) verify(ctx context.Context, s *Subscription, all []Stream, v View) error {
	var mu sync.Mutex
	var errs []error
	var parts sync.WaitGroup
	turns := make(chan struct{}, looking)
	for _, p := range all {
		turns <- struct{}{}
		mu.Lock()
		end := v.Tails[p.Path]
		mu.Unlock()
		parts.Go(func() {
			defer func() { <-turns }()
			tail, shown, err := e.tail(ctx, s, p.Path, end)
			mu.Lock()
			defer mu.Unlock()
			if errs = append(errs, err); tail == 0 {
				delete(v.Tails, p.Path)
				return
			}
			if v.Tails[p.Path] = tail; shown != tail {
				v.Shown[p.Path] = shown
			}
		})
	}
	parts.Wait()
	return errors.Join(errs...)
}

// tail returns the end of a stream, at most seen, and in shown its last message up to there that
// the subscription's owner may see. A tail of 0 means that the stream does not exist or must stay
// hidden. A shown of 0 means that no message is visible.
func (e *Engine) tail(ctx context.Context, s *Subscription, path string, seen uint64) (tail, shown uint64, err error) {
	if err := e.passes(s, path, seen); err != nil {
		if errors.Is(err, errWithheld) {
			err = nil
		}
		return 0, 0, err
	}
	tail, there, err := e.ports.Streams.Tail(ctx, s.Namespace, s.Path(path))
	if err != nil || !there {
		return 0, 0, err
	}
	tail = min(tail, seen)
	shown, err = e.ports.Streams.Visible(ctx, s.Owner(), s.Namespace, s.Path(path), tail)
	return tail, shown, err
}
