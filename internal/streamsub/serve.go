package streamsub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// sentTries limits the attempts to store the outcome of a request. After them the request itself is
// repeated.
const sentTries = 5

// serve does a subscription's due work if this process owns it, and schedules its next processing.
// An error is logged by work, which tries again a second later.
func (e *Engine) serve(ctx context.Context, key string, ent *entry, s Subscription) error {
	if !e.ports.Owns.Owns(key) {
		e.clock.set(key, time.Time{})
		return nil
	}
	switch e.holds(&s) {
	case model.Lost:
		return e.revoke(ctx, key, s.Incarnation)
	case model.Undecided:
		return model.PermissionsUnknown()
	case model.Pass, model.Withhold:
	}
	now := e.opts.Now()
	var wait time.Duration // until the webhook's rate permits a request
	if s.toSend(now) {
		wait = e.attempt(ctx, key, ent, s)
	}
	look, err := e.mayLook(&s, now)
	if err == nil && look {
		s, _, err = e.apply(ctx, key, Input{Do: Look}, nil)
	}
	if isGone(err) {
		return e.orphan(ctx, key, s)
	}
	if err == nil {
		e.setClock(key, ent, &s, now.Add(wait))
	}
	return err
}

// setClock schedules a subscription's next processing. A subscription with a wake in flight is
// processed when the wake was sent, or when its lease ends. One that waits for the rate of its
// webhook is not processed before the time earliest.
func (e *Engine) setClock(key string, ent *entry, s *Subscription, earliest time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := s.Next()
	switch {
	case s.Wake != nil && ent.sending[s.Wake.ID]:
		next = s.Wake.Until
	case s.Wake != nil && s.Wake.Send && next.Before(earliest):
		next = earliest
	}
	e.clock.set(key, next)
}

// toSend reports whether a wake is due to be sent.
func (s *Subscription) toSend(now time.Time) bool {
	w := s.Wake
	return w != nil && w.Send && !s.NotBefore.After(now) && (w.Until.IsZero() || now.Before(w.Until))
}

// mayLook reports whether there may be something to decide, or the namespace is gone. It reads only
// memory.
func (e *Engine) mayLook(s *Subscription, now time.Time) (bool, error) {
	e.mu.Lock()
	t := e.follow(s.Namespace)
	e.mu.Unlock()
	if t == nil {
		return false, sluice.Errorf(sluice.Unavailable, "the server is stopping")
	}
	t.mu.Lock()
	known, missing := t.known, t.missing
	t.mu.Unlock()
	switch {
	case missing:
		return true, nil // the look fails then, and the subscription is an orphan
	case s.Wake != nil:
		return !s.Wake.Until.IsZero() && !now.Before(s.Wake.Until), nil
	case !known || s.NotBefore.After(now):
		return false, nil // it is processed as soon as the tails are complete
	}
	v := e.known(t, s)
	return s.beyond(v.At) || !s.NotBefore.IsZero() || len(Pending(s, v)) > 0, nil
}

// holds decides whether a subscription's owner may still see any of its streams.
func (e *Engine) holds(s *Subscription) model.Decision {
	decision := model.Lost
	for _, wish := range s.Wishes() {
		switch e.ports.Gate.Holds(wish) {
		case model.Pass, model.Withhold:
			return model.Pass
		case model.Undecided:
			decision = model.Undecided
		case model.Lost:
		}
	}
	if len(s.Wishes()) == 0 { // without a pattern, and all named streams were removed
		return model.Pass
	}
	return decision
}

// errKept makes remove keep a subscription whose owner has access after all.
var errKept = errors.New("access is allowed")

// revoke removes a subscription after its owner lost access. Until then the gate blocks it.
func (e *Engine) revoke(ctx context.Context, key, incarnation string) error {
	err := e.remove(ctx, key, sluice.System, func(s *Subscription) error {
		if s.Incarnation != incarnation || e.holds(s) != model.Lost {
			return errKept
		}
		e.opts.Log.LogAttrs(ctx, slog.LevelWarn, "access lost: stream subscription removed", e.about(s)...)
		return nil
	})
	if isGone(err) || errors.Is(err, errKept) {
		return nil
	}
	return err
}

// orphan removes a subscription whose namespace was deleted. If the subscription is not stored any
// more, it removes it from memory.
func (e *Engine) orphan(ctx context.Context, key string, s Subscription) error {
	e.mu.Lock()
	known := e.revision(key)
	e.mu.Unlock()
	_, revision, err := e.load(ctx, key)
	if isGone(err) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if ent := e.entries[key]; ent != nil && ent.revision == known {
			e.drop(key, ent)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if _, err = e.ports.Logs.LastSeq(ctx, s.Namespace); sluice.CodeOf(err) == sluice.NotFound {
		return e.ports.Records.Delete(ctx, key, revision)
	}
	return err
}

// revision returns the known revision of a subscription. The caller holds the lock.
func (e *Engine) revision(key string) uint64 {
	if ent := e.entries[key]; ent != nil {
		return ent.revision
	}
	return 0
}

func isGone(err error) bool {
	r, ok := errors.AsType[*Refusal](err)
	return ok && r.Code == NotFound || sluice.CodeOf(err) == sluice.NotFound
}

// attempt starts to send the wake, unless it is already being sent. An unanswered request of an
// earlier wake does not delay it. It returns how long the wake has to wait for the rate that the
// webhook agreed to; 0: it does not wait.
func (e *Engine) attempt(ctx context.Context, key string, ent *entry, s Subscription) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ent.sending[s.Wake.ID] || e.launch == nil {
		return 0
	}
	if wait := e.pace(&s); wait > 0 {
		return wait
	}
	ent.sending[s.Wake.ID] = true
	ctx, leave := e.under.Enter(ctx, sending{key, &s})
	e.launch(func(context.Context) { // ctx also ends with Run
		err := e.send(ctx, key, s)
		cut := ctx.Err() != nil
		failed := err != nil && !cut
		e.mu.Lock()
		delete(ent.sending, s.Wake.ID)
		if failed { // under the lock, so that serve does not postpone it
			e.clock.set(key, e.opts.Now().Add(time.Second))
		}
		e.mu.Unlock()
		leave()
		if failed {
			e.opts.Log.LogAttrs(ctx, slog.LevelWarn, "wake not sent yet", e.about(&s, slog.String("wake", s.Wake.ID), slog.Any("error", err))...)
			return
		}
		e.kick(key)
	})
	return 0
}

// pace counts a request to a webhook that agreed to a rate, or returns how long to wait.
func (e *Engine) pace(s *Subscription) time.Duration {
	if e.ports.Pace == nil || s.Agreed == nil || s.Agreed.RatePerMinute == 0 {
		return 0
	}
	return e.ports.Pace.Take(s.Sends(), e.opts.Now())
}

// send makes an attempt and stores the outcome. If the attempt was cancelled without success, it
// stores nothing, and the attempt is repeated. It checks the stored state, then visibility, and
// ownership last, because the reads before may have taken long.
func (e *Engine) send(ctx context.Context, key string, s Subscription) error {
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if current, err := e.current(ctx, key, s); err != nil || !current {
		return err
	}
	hidden, err := e.hidden(ctx, &s)
	if err != nil {
		return err
	}
	if len(hidden) > 0 {
		_, _, err := e.apply(ctx, key, Input{Do: Withdrawn, Wake: s.Wake.ID, Paths: hidden}, s.same)
		return err
	}
	if !e.ports.Owns.Owns(key) { // reads may have taken long, or the machine was suspended: then another replica sends it
		return nil
	}
	in := Input{Do: Sent, Wake: s.Wake.ID}
	began := e.opts.Now()
	what, err := e.deliver(ctx, &s, &in)
	if err != nil {
		return err
	}
	if ctx.Err() != nil && !in.OK {
		return ctx.Err()
	}
	e.opts.Log.LogAttrs(ctx, slog.LevelInfo, "wake", e.about(&s, slog.String("wake", s.Wake.ID), slog.Uint64("generation", s.Generation),
		slog.Bool("arrived", in.OK), slog.Bool("done", in.Done), slog.String("error", what), slog.Duration("took", e.opts.Now().Sub(began)))...)
	return e.record(ctx, key, &s, in)
}

// current reports whether a wake is still to be sent. Another replica may have sent it meanwhile.
func (e *Engine) current(ctx context.Context, key string, s Subscription) (bool, error) {
	stored, revision, err := e.load(ctx, key)
	if isGone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.know(key, stored, revision)
	return stored.Wake != nil && stored.Wake.ID == s.Wake.ID && stored.toSend(e.opts.Now()), nil
}

// record stores the outcome of an attempt.
func (e *Engine) record(ctx context.Context, key string, s *Subscription, in Input) error {
	var err error
	for i := range sentTries {
		if _, _, err = e.apply(ctx, key, in, s.same); err == nil || isGone(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(i+1) * 100 * time.Millisecond):
		}
	}
	return err
}

// same returns an error if other is a later subscription of the same id.
func (s *Subscription) same(other *Subscription) error {
	if s.Incarnation != other.Incarnation {
		return Missing()
	}
	return nil
}

// hidden returns the streams of a wake that must not be announced now.
func (e *Engine) hidden(ctx context.Context, s *Subscription) ([]string, error) {
	v := View{Tails: map[string]uint64{}, Shown: map[string]uint64{}}
	var all []Stream
	for path, tail := range s.Wake.Snapshot {
		v.Tails[path] = tail
		all = append(all, Stream{Path: path, Tail: tail})
	}
	if err := e.verify(ctx, s, all, v); err != nil {
		return nil, err
	}
	var hidden []string
	for _, p := range all {
		if v.shown(p.Path) != p.Tail { // the next wake announces the visible messages
			hidden = append(hidden, p.Path)
		}
	}
	return hidden, nil
}

// deliver sends the wake as its kind requires, and sets the outcome in in. It returns a failure of
// the attempt as text, and an error if no attempt was possible.
func (e *Engine) deliver(ctx context.Context, s *Subscription, in *Input) (string, error) {
	if s.Config.Kind == PullWake {
		return e.write(ctx, s, in)
	}
	now := e.opts.Now()
	left := s.Wake.Until.Sub(now)
	if left <= 0 {
		return "the lease ended before the notice was sent", nil
	}
	body, err := e.notice(s, now)
	if err != nil {
		return "", err
	}
	answer, err := e.ports.Post.Post(ctx, s.Config.URL, body, now, left)
	if err != nil {
		return "", err
	}
	in.OK = answer.OK
	var said struct {
		Done bool `json:"done"`
	}
	if answer.OK && json.Unmarshal(answer.Body, &said) == nil {
		in.Done = said.Done
	}
	return answer.Error, nil
}

// write appends the message that wakes workers to the wake stream.
func (e *Engine) write(ctx context.Context, s *Subscription, in *Input) (what string, err error) {
	path := s.Path(s.Config.WakeStream)
	switch e.ports.Gate.Writes(s.Owner(), s.Namespace, path) {
	case model.Pass:
	case model.Undecided:
		return "", model.PermissionsUnknown()
	case model.Withhold, model.Lost:
		return "the subscription's creator may not write to its wake stream", nil
	}
	line, err := json.Marshal(wakeLine{"wake", s.ID, s.Wake.Trigger, s.Generation, e.opts.Now().UnixMilli()})
	if err != nil {
		return "", fmt.Errorf("wake: %w", err)
	}
	err = e.ports.Streams.Append(ctx, s.Namespace, path, line, sluice.Caller{Principal: s.Principal, Grant: s.Grant})
	if in.OK = err == nil; !in.OK {
		what = err.Error() // the attempt failed; a later one follows
	}
	return what, nil
}

// wakeLine is a message in a wake stream.
type wakeLine struct {
	Type         string `json:"type"`
	Subscription string `json:"subscription_id"`
	Stream       string `json:"stream"`
	Generation   uint64 `json:"generation"`
	At           int64  `json:"ts"`
}

// Told is a stream's state in a notice or in the answer to a claim.
type Told struct {
	Path    string `json:"path"`
	Link    string `json:"link_type"`
	Acked   string `json:"acked_offset"`
	Tail    string `json:"tail_offset"`
	Pending bool   `json:"has_pending"`
}

// notice is the body of a webhook.
type notice struct {
	Subscription string `json:"subscription_id"`
	Wake         string `json:"wake_id"`
	Generation   uint64 `json:"generation"`
	Streams      []Told `json:"streams"`
	CallbackURL  string `json:"callback_url"`
	Token        string `json:"callback_token"`
}

// notice returns the body of a webhook.
//
//	{"subscription_id":"s1","wake_id":"w_…","generation":3,
//	 "streams":[{"path":"orders","link_type":"glob","acked_offset":"…","tail_offset":"…",
//	             "has_pending":true}],
//	 "callback_url":"…","callback_token":"…"}
func (e *Engine) notice(s *Subscription, now time.Time) ([]byte, error) {
	badge, err := token(e.ports.Keys, s, now)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(notice{s.ID, s.Wake.ID, s.Generation, e.told(s), e.ControlURL(s.Key) + "/callback", badge})
	if err != nil {
		return nil, fmt.Errorf("wake: %w", err)
	}
	return body, nil
}

// told returns the states of the streams for a worker. It leaves out streams without new messages
// that the subscription's owner may not see any more.
func (e *Engine) told(s *Subscription) []Told {
	all := []Told{}
	for _, p := range s.Told() {
		if !p.Pending() && !p.Explicit && e.ports.Gate.Shows(s.Owner(), s.Namespace, s.Path(p.Path), p.Tail) != model.Pass {
			continue
		}
		all = append(all, Told{p.Path, p.Link(), e.ports.Offset(p.Acked), e.ports.Offset(p.Tail), p.Pending()})
	}
	return all
}

// Link returns the protocol's name of a stream's relation to its subscription.
func (s Stream) Link() string {
	if s.Explicit {
		return "explicit"
	}
	return "glob"
}

// RootURL returns the base URL of a root's control requests.
func (e *Engine) RootURL(k Key) string {
	return e.opts.BaseURL + (&url.URL{Path: "/" + k.Namespace + k.Root + "/" + ControlSegment}).EscapedPath()
}

// ControlURL returns a subscription's control URL.
func (e *Engine) ControlURL(k Key) string {
	return e.RootURL(k) + "/subscriptions/" + url.PathEscape(k.ID)
}
