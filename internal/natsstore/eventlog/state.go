package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// errLost is the error of a read that found a damaged message. JetStream does not return the
// messages after it.
var errLost = errors.New("the last message of a path cannot be read")

// Limits of one request to JetStream for a state.
const (
	maxLasts      = 1000      // subjects; JetStream accepts 1,024
	maxListed     = 10_000    // subjects of a log up to which they are listed instead of found by reading the log
	maxLastsBytes = 256 << 10 // of the names of subjects
	maxUnreadable = 64        // messages at the end of a path that are skipped because they are not events
)

// State returns the last event of every path as of one sequence: together with the events after
// that sequence, no event is missing or duplicated. It includes all events that were stored before
// the call, also on a cluster. It omits a path whose last event is not visible or is damaged, and
// an event that was deleted from the middle of the log during the call.
//
// Codes: NotFound for the namespace; InvalidRequest for an invalid pattern, and for a sequence that
// the log has not reached; WindowExceeded, with oldest_available_seq and current_seq, if the log
// starts after the sequence, or if events of the next page were deleted because of the retention.
// The three ways, by the number of paths:
//
//	few      one request for all last messages, while JetStream accepts the filters
//	listed   up to 10,000 subjects, or one path: list them, ask for the last messages in parts
//	walk     more: read the log, and ask for the last message of each subject that appears
//
// Pass Seq and Next of a page as q.At and q.After of the next one, so that all pages are of one
// state. Next is 0 at the end. Events are in the order of their sequences.
func (l *Log) State(ctx context.Context, ns string, q model.StateQuery) (model.StatePage, error) {
	r, err := l.newStateReader(ctx, ns, q)
	if err != nil {
		return model.StatePage{}, err
	}
	err = r.few(ctx)
	switch {
	case !errors.Is(err, natsstore.ErrTooMany) && !errors.Is(err, errLost):
	case r.all <= maxListed || q.Path != "":
		err = r.listed(ctx)
	default:
		err = r.walk(ctx)
	}
	if err != nil {
		return model.StatePage{}, fmt.Errorf("state of %s: %w", ns, natsstore.StoreError(ctx, err))
	}
	return r.page(), nil
}

// stateReader collects a page of a state. It is for one goroutine and one page. In walk, known
// saves another request for a subject whose last message is later.
type stateReader struct {
	log     *Log
	ns      string
	q       model.StateQuery
	lasts   []string // filters of the subjects whose last messages are wanted
	filter  string   // a subject that matches all of them
	all     uint64   // number of subjects in the log
	at      uint64
	first   uint64 // first sequence of the log
	after   uint64 // paths whose last message is up to here were processed
	begun   bool   // some paths were processed: the next messages must not have been deleted
	scanned int
	known   map[string]uint64 // sequences of the last messages of subjects
	events  []sluice.Event
}

func (l *Log) newStateReader(ctx context.Context, ns string, q model.StateQuery) (*stateReader, error) {
	q.Pattern = cmp.Or(q.Pattern, "/**")
	if _, err := sluice.ParsePattern(string(q.Pattern)); err != nil {
		return nil, err
	}
	q.Limit = min(cmp.Or(max(q.Limit, 0), defaultPage), maxPage)
	info, err := l.core.EventsInfo(ctx, ns)
	if err != nil {
		return nil, err
	}
	r := &stateReader{log: l, ns: ns, q: q, all: info.State.NumSubjects, at: cmp.Or(q.At, info.State.LastSeq), first: info.State.FirstSeq, after: q.After, begun: q.After > 0, known: map[string]uint64{}}
	switch {
	case r.at > info.State.LastSeq:
		return nil, sluice.Errorf(sluice.InvalidRequest, "the log has not reached sequence %d; it ends at %d", r.at, info.State.LastSeq).With("current_seq", info.State.LastSeq)
	case r.after > r.at:
		return nil, sluice.Errorf(sluice.InvalidRequest, "the state at %d is not available yet", r.at)
	}
	if err := checkWindow(r.at, info.State); err != nil {
		return nil, err
	}
	if !r.begun {
		r.after = max(info.State.FirstSeq, 1) - 1
	}
	r.choose()
	return r, nil
}

// choose sets the filters for the wanted subjects.
func (r *stateReader) choose() {
	if r.q.Path != "" {
		r.filter = r.log.core.Names().Subject(r.ns, r.q.Path)
		r.lasts = []string{r.filter}
		return
	}
	r.filter = r.log.core.Names().Superset(r.ns, r.q.Pattern).Subject
	if r.filter == r.log.core.Names().EventsSubjects(r.ns) {
		r.filter = ">" // without a filter, JetStream reads more than twice as fast
	}
	for _, f := range r.log.core.Names().Filters(r.ns, r.q.Pattern) {
		r.lasts = append(r.lasts, f.Subject)
	}
}

func (r *stateReader) more() bool {
	return r.after < r.at && len(r.events) < r.q.Limit && r.scanned < maxScan
}

func (r *stateReader) page() model.StatePage {
	slices.SortFunc(r.events, func(a, b sluice.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	page := model.StatePage{Seq: r.at, Events: r.events, First: r.first}
	if r.after < r.at {
		page.Next = r.after
	}
	return page
}

// few reads the state with requests for all last messages. It returns ErrTooMany if there are more
// paths than JetStream allows, errLost if one of the messages is damaged.
func (r *stateReader) few(ctx context.Context) error {
	for r.more() {
		answer, err := r.ask(ctx, lastsOf{r.lasts, r.at, r.batch(), natsstore.DirectMaxBytes})
		if err != nil {
			return err
		}
		end := r.at
		if answer.More && len(answer.Msgs) > 0 {
			end = seqOf(answer.Msgs[len(answer.Msgs)-1])
		}
		if r.begun { // the first answer is consistent by itself
			err = r.kept(ctx)
		}
		r.begun = true
		if err == nil {
			err = r.enter(ctx, answer.Msgs, end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// batch returns the number of messages to request: the maximum if some of them may be invisible.
func (r *stateReader) batch() int {
	if r.q.Visible != nil {
		return maxPage
	}
	return r.q.Limit - len(r.events) + 1
}

// listed reads the state of a log with at most maxListed subjects: it lists them, and requests the
// last messages of all.
func (r *stateReader) listed(ctx context.Context) error {
	parts, err := r.list(ctx)
	if err != nil {
		return err
	}
	for r.more() {
		var lasts []*nats.Msg
		end := r.at
		for _, subjects := range parts {
			answer, err := r.intact(ctx, lastsOf{subjects, r.at, r.batch(), 2 * natsstore.DirectMaxBytes / len(parts)})
			if err != nil {
				return err
			}
			if lasts = append(lasts, answer.Msgs...); answer.More && len(answer.Msgs) > 0 {
				end = min(end, seqOf(lasts[len(lasts)-1]))
			}
		}
		slices.SortFunc(lasts, func(a, b *nats.Msg) int { return cmp.Compare(seqOf(a), seqOf(b)) })
		if err := r.kept(ctx); err != nil {
			return err
		}
		if err := r.enter(ctx, lasts, end); err != nil {
			return err
		}
	}
	return nil
}

// list returns the wanted subjects in parts, each of which fits into one request for their last
// messages.
func (r *stateReader) list(ctx context.Context) (parts [][]string, err error) {
	size := maxLastsBytes
	for _, filter := range r.lasts {
		subjects, err := r.log.subjects(ctx, r.ns, filter)
		if err != nil {
			return nil, err
		}
		for subject := range subjects {
			if !r.wants(subject) {
				continue
			}
			if size += len(subject) + 3; size > maxLastsBytes || len(parts[len(parts)-1]) == maxLasts {
				parts, size = append(parts, nil), len(subject)+3
			}
			parts[len(parts)-1] = append(parts[len(parts)-1], subject)
		}
	}
	return parts, nil
}

// walk reads the state of any number of paths: it reads the log, and requests the last message of
// each path that it finds.
func (r *stateReader) walk(ctx context.Context) error {
	for r.more() {
		part, err := r.next(ctx)
		if err != nil {
			return err
		}
		var lasts []*nats.Msg
		if len(part.subjects) > 0 {
			if lasts, err = r.lastOf(ctx, part.subjects); err != nil {
				return err
			}
		}
		if err := r.kept(ctx); err != nil {
			return err
		}
		if err := r.enter(ctx, lasts, part.end); err != nil {
			return err
		}
		r.scanned += part.messages
	}
	return nil
}

// stretch is the next part of the log, up to a sequence.
type stretch struct {
	end      uint64
	messages int
	subjects []string // whose last message may be in it
}

// next returns the next stretch of the log.
func (r *stateReader) next(ctx context.Context) (stretch, error) {
	return natsstore.AskedFor(ctx, natsstore.RequestTimeout, func(ctx context.Context) (stretch, error) {
		msgs, _, err := r.log.core.Direct(ctx, r.ns, natsstore.DirectRequest{Seq: r.after + 1, Subject: r.filter, Batch: maxLasts})
		if err != nil {
			return stretch{}, err
		}
		if len(msgs) > 0 {
			return r.stretch(msgs), nil
		}
		seq, err := r.log.NextSeq(ctx, r.ns, r.filter, r.after+1)
		if err == nil && seq > 0 && seq <= r.at {
			err = natsstore.ErrBehind
		}
		return stretch{end: r.at}, err
	})
}

func (r *stateReader) stretch(msgs []*nats.Msg) stretch {
	part, size, seen := stretch{}, 0, map[string]bool{}
	for _, msg := range msgs {
		seq, subject := seqOf(msg), natsstore.LastHeader(msg, natsstore.HeaderSubject)
		if seq > r.at {
			part.end = r.at
			break
		}
		if last, known := r.known[subject]; !seen[subject] && (!known || last == seq) && r.wants(subject) {
			if size += len(subject) + 3; size > maxLastsBytes {
				break
			}
			seen[subject] = true
			part.subjects = append(part.subjects, subject)
		}
		part.end = seq
		part.messages++
	}
	return part
}

// lastOf returns the last messages of subjects that are after r.after.
func (r *stateReader) lastOf(ctx context.Context, subjects []string) ([]*nats.Msg, error) {
	var all []*nats.Msg
	reached := r.after
	defer func() { r.after = reached }()
	for {
		answer, err := r.intact(ctx, lastsOf{subjects, r.at, maxPage, natsstore.DirectMaxBytes})
		if err != nil {
			return nil, err
		}
		for _, msg := range answer.Msgs {
			r.known[natsstore.LastHeader(msg, natsstore.HeaderSubject)] = seqOf(msg)
		}
		all = append(all, answer.Msgs...)
		if !answer.More || len(answer.Msgs) == 0 {
			return all, nil
		}
		r.after = seqOf(all[len(all)-1])
	}
}

// lastsOf requests the last messages of subjects as if the log ended at a sequence.
type lastsOf struct {
	subjects []string
	at       uint64
	batch    int // maximum number of messages
	bytes    int // approximate maximum size
}

// ask returns the last messages that are after r.after. It also requests the message at the end of
// the range, the anchor: a replica that does not have it yet finds nothing, and the request is
// retried. In addition, JetStream does not find a subject whose last message was in a deleted block
// unless the request contains another subject from which its search can start.
func (r *stateReader) ask(ctx context.Context, want lastsOf) (natsstore.DirectAnswer, error) {
	return natsstore.AskedFor(ctx, natsstore.RequestTimeout, func(ctx context.Context) (natsstore.DirectAnswer, error) {
		anchor, err := r.log.leadersAnchor(ctx, r.ns, want.at)
		if err != nil || anchor.Seq == 0 {
			return natsstore.DirectAnswer{}, err
		}
		upTo := min(want.at, anchor.Seq)
		request := natsstore.DirectRequest{
			Seq: r.after + 1, Batch: want.batch, MaxBytes: want.bytes, UpTo: upTo, Lasts: append(slices.Clone(want.subjects), anchor.Subject),
		}
		body, err := request.Body()
		if err != nil {
			return natsstore.DirectAnswer{}, err //nolint:wrapcheck // it says so
		}
		answer, err := r.log.core.DirectOnce(ctx, r.ns, body, want.batch+1)
		switch {
		case err != nil || !answer.None:
		case answer.Lost:
			err = errLost
		case anchor.Seq == upTo:
			err = natsstore.ErrBehind
		}
		return answer, err
	})
}

// intact is ask for subjects without wildcards. It omits those whose last message is damaged, which
// it finds by bisection.
func (r *stateReader) intact(ctx context.Context, want lastsOf) (answer natsstore.DirectAnswer, err error) {
	if answer, err = r.ask(ctx, want); !errors.Is(err, errLost) {
		return answer, err
	}
	if len(want.subjects) == 1 {
		return natsstore.DirectAnswer{}, nil
	}
	answer = natsstore.DirectAnswer{}
	end := want.at
	for half := range slices.Chunk(want.subjects, (len(want.subjects)+1)/2) {
		part := want
		part.subjects = half
		one, err := r.intact(ctx, part)
		if err != nil {
			return answer, err
		}
		if one.More && len(one.Msgs) > 0 {
			answer.More, end = true, min(end, seqOf(one.Msgs[len(one.Msgs)-1]))
		}
		answer.Msgs = append(answer.Msgs, one.Msgs...)
	}
	answer.Msgs = slices.DeleteFunc(answer.Msgs, func(msg *nats.Msg) bool { return seqOf(msg) > end })
	slices.SortFunc(answer.Msgs, func(a, b *nats.Msg) int { return cmp.Compare(seqOf(a), seqOf(b)) })
	return answer, nil
}

// enter adds the wanted events of messages in a stretch of the log, and advances r.after to the end
// of the stretch or, if the page is full, to its last event.
func (r *stateReader) enter(ctx context.Context, msgs []*nats.Msg, end uint64) error {
	for _, msg := range msgs {
		seq := seqOf(msg)
		if seq <= r.after || seq > end {
			continue
		}
		if len(r.events) == r.q.Limit {
			return nil
		}
		e, ok, err := r.eventOf(ctx, msg)
		if err != nil {
			return err
		}
		if ok && (r.q.Visible == nil || r.q.Visible(&e)) {
			r.events = append(r.events, e)
		}
		r.after = seq
	}
	r.after = max(r.after, end)
	return nil
}

// kept returns an error with code WindowExceeded if messages after r.after were deleted because of
// the retention. If no page was started yet, it skips them: one request may have found them and
// another not.
func (r *stateReader) kept(ctx context.Context) error {
	info, err := r.log.core.EventsInfo(ctx, r.ns)
	if err != nil {
		return err
	}
	if r.begun {
		return checkWindow(r.after, info.State)
	}
	r.begun = true
	r.after = max(r.after, max(info.State.FirstSeq, 1)-1)
	return nil
}

// eventOf returns the last event of a path, given the last message of the path, and whether there
// is a wanted one.
func (r *stateReader) eventOf(ctx context.Context, msg *nats.Msg) (sluice.Event, bool, error) {
	subject := natsstore.LastHeader(msg, natsstore.HeaderSubject)
	if !r.wants(subject) {
		return sluice.Event{}, false, nil
	}
	for range maxUnreadable {
		e, err := r.log.stamps.directEvent(msg)
		if err == nil || sluice.CodeOf(err) != sluice.InvalidRequest {
			return e, err == nil, err
		}
		if msg, err = r.before(ctx, subject, e.Seq); err != nil || msg == nil {
			return sluice.Event{}, false, err
		}
	}
	return sluice.Event{}, false, nil
}

// wants reports whether the state of a subject is wanted.
func (r *stateReader) wants(subject string) bool {
	_, path, err := r.log.core.Names().ParseSubject(subject)
	if err != nil {
		return false // it is not the subject of a path
	}
	if r.q.Path != "" {
		return path == r.q.Path
	}
	return r.q.Pattern.Match(path)
}

// before returns the last message of a subject before a sequence; nil if there is none.
func (r *stateReader) before(ctx context.Context, subject string, seq uint64) (*nats.Msg, error) {
	older := *r
	older.after = 0
	if seq <= 1 {
		return nil, nil //nolint:nilnil // there is none
	}
	answer, err := older.ask(ctx, lastsOf{[]string{subject}, seq - 1, 2, natsstore.DirectMaxBytes})
	if errors.Is(err, errLost) {
		return nil, nil //nolint:nilnil // there is no readable one
	}
	for _, msg := range answer.Msgs {
		if natsstore.LastHeader(msg, natsstore.HeaderSubject) == subject {
			return msg, err
		}
	}
	return nil, err
}
