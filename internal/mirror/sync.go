package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/internal/bundle"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of the pages that are stored in one step. A batch of JetStream, and a read of entries, has
// a thousand messages at most.
const (
	pageItems     = 100 // S3-43
	groupMessages = 950
	groupBytes    = 4 << 20 // of data, exceeded by up to a page
)

// How often a step is decided again because the place has moved, and the pause before each.
const (
	maxTries = 10
	tryAgain = 10 * time.Millisecond
)

// outcome is the result of a sync.
type outcome struct {
	place Place // that the mirror has reached
	more  bool  // the source has more
	err   error // a *Stop if the mirror must be suspended
}

// pull reads pages of a mirror's source from its place on and stores them, until its turn ends. If
// another replica does the same, each step is stored only once. Age is the maximum age of a shared
// answer that there is nothing new.
func (e *Engine) pull(ctx context.Context, m *sluice.Mirror, at Place, age time.Duration) outcome {
	if m.Imported() {
		return outcome{place: at}
	}
	if _, err := e.rule(ctx, m); err != nil {
		return outcome{at, true, err}
	}
	credential, err := e.credential(ctx, m)
	if err != nil {
		return outcome{at, true, err}
	}
	pause := supervise.Pause{First: tryAgain, Most: tryAgain}
	for tries := 0; ; tries++ {
		if at.Revision == 0 {
			at, err = e.opened(ctx, m)
		}
		is := outcome{at, true, err}
		if err == nil {
			is = e.steps(ctx, reader{e, m, credential, e.opts.Now().Add(turnTime), age, at.Incarnation}, at)
		}
		if sluice.CodeOf(is.err) != sluice.Conflict || tries == maxTries || !pause.Wait(ctx) {
			return is
		}
		if e.superseded(m) {
			return outcome{Place{}, true, nil}
		}
		at = Place{} // another replica is ahead
	}
}

// steps stores steps from a place on, until the turn ends or the mirror is changed. It reads the
// pages of the next step while it stores one. At most one read is ahead, and it has ended when
// steps returns.
func (e *Engine) steps(ctx context.Context, source reader, at Place) outcome {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read := source.read(ctx, at.Watermark)
	for left := e.opts.Groups - 1; ; left-- {
		var ahead chan batch
		if read.more && read.err == nil && left > 0 && source.inTime() {
			ahead = make(chan batch, 1)
			go func() { ahead <- source.read(ctx, read.through) }() // received below
		}
		next, err := e.step(ctx, source.mirror, at, read.pages)
		is := outcome{next, read.more, cmp.Or(err, read.err)}
		changed := e.superseded(source.mirror)
		if is.err != nil || changed {
			cancel()
		}
		if ahead != nil {
			read = <-ahead
		}
		if is.err != nil || changed || ahead == nil {
			is.more = is.more || is.err != nil || changed
			return is
		}
		at = next
	}
}

// step stores pages that were read after a place, under the current rule, and returns the next
// place.
func (e *Engine) step(ctx context.Context, m *sluice.Mirror, at Place, pages []*sluice.ObservePage) (Place, error) {
	if e.superseded(m) {
		return at, nil
	}
	rule, err := e.rule(ctx, m)
	if err != nil {
		return at, err
	}
	next, err := e.store(ctx, rule, at, pages)
	if _, stops := errors.AsType[*Stop](err); stops { // the place may be of another log than the mirror follows by now
		is, failed := e.opened(ctx, m)
		if failed != nil {
			return at, failed
		}
		if is.Revision != next.Revision {
			return at, sluice.Errorf(sluice.Conflict, "the mirror has moved on")
		}
	}
	return next, err
}

// batch holds consecutive pages of a source that are stored in one step, because an atomic batch of
// JetStream costs as much as hundreds of entries in it.
type batch struct {
	pages   []*sluice.ObservePage
	through uint64 // where the next begins
	more    bool   // there is one
	err     error  // of the page after them
}

// reader reads the source of a mirror.
type reader struct {
	engine     *Engine
	mirror     *sluice.Mirror
	credential string
	until      time.Time // when the turn ends
	age        time.Duration
	log        string // incarnation of the log that the mirror follows; "": not known yet
}

// turnTime limits the turn of a mirror. A slow source occupies a worker for that time and one
// response.
const turnTime = 30 * time.Second

func (r reader) inTime() bool { return r.engine.opts.Now().Before(r.until) }

// read reads the pages of one step, after a sequence. An error is that of the page after b.pages.
// The caller stores b.pages all the same.
func (r reader) read(ctx context.Context, since uint64) batch {
	b := batch{through: since, more: true}
	for messages, bytes := 0, 0; b.more && messages+pageItems <= groupMessages && bytes < groupBytes; {
		page, err := r.observe(ctx, b.through)
		if err == nil && len(page.Items) > pageItems {
			err = sluice.Errorf(sluice.Unprocessable, "%s sent %d changes where %d were asked for", r.mirror.Source, len(page.Items), pageItems)
		}
		if err != nil {
			b.err = err
			return b
		}
		if messages += messagesOf(page); messages > groupMessages && len(b.pages) > 0 {
			return b // the next step begins with it
		}
		for i := range page.Items {
			bundle.CleanAttributes(&page.Items[i].Event) // as for those in bundles
			bytes += len(page.Items[i].Event.Data) + attributeBytes(&page.Items[i].Event)
		}
		b.pages, b.more = append(b.pages, page), page.HasMore && page.ThroughSeq > b.through
		if b.through = page.ThroughSeq; !r.inTime() {
			return b
		}
	}
	return b
}

// messagesOf returns how many messages a step with a page may need, besides that of the place.
func messagesOf(page *sluice.ObservePage) int {
	n := len(page.Lost) + 1
	for i := range page.Items {
		n += messagesFor(&page.Items[i])
	}
	return n
}

// largeData is data that may not fit into an entry.
const largeData = 256 << 10

func messagesFor(c *sluice.Change) int {
	if c.Event.Extensions[sluice.AttributeClassification] != "" || len(c.Event.Data) >= largeData {
		return 2 // it may cause a gap, and a tombstone of the previous version
	}
	return 1
}

// rule returns the current rule for a mirror's pages. The error is a *Stop if its approver has lost
// access.
func (e *Engine) rule(ctx context.Context, m *sluice.Mirror) (Rule, error) {
	switch e.deps.Gate.Holds(m) {
	case model.Lost:
		return Rule{}, stop(sluice.MirrorAccessLost, "%s may not mirror %s any more", m.ApprovedBy, m.Source)
	case model.Undecided, model.Withhold:
		return Rule{}, sluice.Errorf(sluice.Unavailable, "the access of %s is not known at the moment", m.ApprovedBy)
	case model.Pass:
	}
	own, err := e.incarnation(ctx, m.Namespace)
	if err != nil {
		return Rule{}, err
	}
	return Rule{Mirror: m, Label: e.deps.Namespaces.Label(m.Namespace), Own: own, Most: e.deps.Copies.MaxEntry()}, nil
}

// credential returns the token for a mirror's source; "" for a namespace of this server.
func (e *Engine) credential(ctx context.Context, m *sluice.Mirror) (string, error) {
	if !m.Remote() {
		return "", nil
	}
	credential, err := e.deps.Credentials.Get(ctx, m.ID)
	if err != nil {
		return "", fmt.Errorf("read credential: %w", err)
	}
	return credential, nil
}

// incarnation is a cached incarnation of a subscriber's log. It is used only for detecting cycles,
// which each poll repeats.
type incarnation struct {
	id string
	at time.Time
}

const ownAgain = time.Minute // how long an incarnation is remembered

func (e *Engine) incarnation(ctx context.Context, namespace string) (string, error) {
	now := e.opts.Now()
	e.mu.Lock()
	known := e.own[namespace]
	e.mu.Unlock()
	if known.id != "" && now.Sub(known.at) < ownAgain {
		return known.id, nil
	}
	id, err := e.deps.Namespaces.Incarnation(ctx, namespace)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		delete(e.own, namespace)
		return "", err
	}
	e.own[namespace] = incarnation{id, now}
	return id, nil
}

// observe reads a page. At the end of a log of this server, it may return the page that another
// mirror has recently read.
func (r reader) observe(ctx context.Context, since uint64) (*sluice.ObservePage, error) {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	e, now := r.engine, r.engine.opts.Now()
	if r.mirror.Remote() {
		return e.deps.Sources.Observe(ctx, r.mirror, r.credential, since)
	}
	if page := e.heads.page(r.mirror.Source, &Place{Incarnation: r.log, Watermark: since}, now.Add(-r.age)); r.age > 0 && page != nil {
		page.Label = e.deps.Namespaces.Label(r.mirror.Source)
		return page, nil
	}
	page, err := e.deps.Sources.Observe(ctx, r.mirror, r.credential, since)
	if err == nil {
		e.heads.note(r.mirror.Source, page, now)
	}
	return page, err
}

// store stores a step with consecutive pages after a place, and returns the next place. Code
// Conflict if the mirror is at another place. If a page is refused, the pages before it are stored.
func (e *Engine) store(ctx context.Context, rule Rule, at Place, pages []*sluice.ObservePage) (Place, error) {
	if len(pages) == 0 {
		return at, nil
	}
	held, err := e.hold(ctx, rule.Mirror.ID, at, pages)
	if err != nil {
		return at, err
	}
	now := e.opts.Now().UTC()
	commit, refused := rule.NextAll(held, pages, now)
	if commit.idle(&at) && (refused != nil || now.Sub(at.stored) < placeEvery) {
		return commit.Place, refused
	}
	next, err := e.keep(ctx, rule.Mirror, commit, now)
	if err != nil {
		return at, err
	}
	return next, refused
}

// hold returns the entries that a mirror already has of those in pages. Code Conflict if the mirror
// is at another place.
func (e *Engine) hold(ctx context.Context, id string, at Place, pages []*sluice.ObservePage) (Held, error) {
	keys := keysOf(pages)
	if len(keys) == 0 {
		return Held{Place: at}, nil
	}
	held, err := e.deps.Copies.Hold(ctx, id, keys)
	if err != nil {
		return held, fmt.Errorf("read entries: %w", err)
	}
	if held.Place.Revision != at.Revision {
		return held, sluice.Errorf(sluice.Conflict, "the mirror has moved on")
	}
	held.Place.stored = at.stored
	return held, nil
}

// keep publishes the gaps of a step, stores the step, and returns the new place. Gaps are told
// before the commit: after a crash in between they are told again with equal ids, and never lost.
func (e *Engine) keep(ctx context.Context, m *sluice.Mirror, commit Commit, now time.Time) (Place, error) {
	for _, gap := range commit.Gaps {
		if err := e.tellGap(ctx, m, gap); err != nil {
			return Place{}, err
		}
	}
	revision, err := e.deps.Copies.Commit(ctx, m.ID, commit)
	if err != nil {
		return Place{}, fmt.Errorf("store step: %w", err)
	}
	commit.Place.Revision, commit.Place.stored = revision, now
	e.opts.Observe.Synced(m, len(commit.Entries), len(commit.Gaps))
	return commit.Place, nil
}

// idle reports whether a commit changes nothing but times.
func (c *Commit) idle(at *Place) bool {
	return len(c.Entries)+len(c.Gaps) == 0 && at.Revision > 0 &&
		c.Place.Watermark == at.Watermark && c.Place.Incarnation == at.Incarnation && c.Place.Tag == at.Tag
}

// keysOf returns the keys of the entries of pages.
func keysOf(pages []*sluice.ObservePage) []string {
	var keys []string
	seen := map[string]bool{}
	for _, page := range pages {
		for i := range page.Items {
			if key := page.Items[i].Key(); key != "" && !seen[key] {
				seen[key] = true
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// report logs and counts the end of a sync, and publishes a change between failure and success.
func (e *Engine) report(ctx context.Context, j *job, record *Stored, err error, stopped bool) { //nolint:revive // stopped is a result on its way
	if err != nil {
		e.opts.Log.LogAttrs(ctx, slog.LevelWarn, "mirror not synced", slog.String("namespace", record.Namespace),
			slog.String("mirror", record.ID), slog.String("source", record.Source), slog.Any("error", err))
		e.opts.Observe.SyncFailed(&record.Mirror)
	}
	if !stopped {
		e.turned(ctx, j, record, err)
	}
}

// turned publishes that the syncs of a mirror begin to fail, or succeed again. If that fails, it is
// published after the next sync.
func (e *Engine) turned(ctx context.Context, j *job, m *Stored, failed error) {
	e.mu.Lock()
	alarmed, failures := j.alarmed, j.failures
	e.mu.Unlock()
	if alarmed == (failed != nil) || m.Gone {
		return
	}
	data := map[string]any{"subscription": m.ID, "source": m.Source}
	kind, now := sluice.TypeMirrorRecovered, e.opts.Now().UTC()
	if data["failures"] = failures; failed != nil {
		kind, data["failures"], data["error"] = sluice.TypeMirrorFailing, failures+1, failed.Error()
	}
	data["at"] = now
	err := e.deps.Teller.Tell(shutdown.Lasting(ctx), m.Namespace, model.SystemEvent{
		Path: sluice.SubscriptionPath(m.ID), Kind: kind, ID: kind + "-" + m.ID + "-" + strconv.FormatInt(now.UnixNano(), 10), Data: data,
	})
	if err != nil {
		e.opts.Log.LogAttrs(ctx, slog.LevelWarn, "turn of a mirror not published", slog.String("mirror", m.ID), slog.Any("error", err))
		return
	}
	e.mu.Lock()
	j.alarmed = failed != nil
	e.mu.Unlock()
}

// tellGap publishes that a mirror lacks a range, before the gap is stored. A repeated call
// publishes the same event id.
func (e *Engine) tellGap(ctx context.Context, m *sluice.Mirror, gap sluice.MirrorGap) error {
	return e.deps.Teller.Tell(ctx, m.Namespace, model.SystemEvent{
		Path: sluice.SubscriptionPath(m.ID), Kind: sluice.TypeMirrorGap,
		ID:   "mirror-gap-" + m.ID + "-" + strconv.FormatUint(gap.From, 10) + "-" + strconv.FormatUint(gap.To, 10),
		Data: map[string]any{"subscription": m.ID, "source": m.Source, "from": gap.From, "to": gap.To, "cause": gap.Cause},
	})
}
