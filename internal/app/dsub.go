package app

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/internal/seal"
	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
	"github.com/sluice-io/sluice/streams"
)

// dsubKeyPrefix is the prefix of key IDs in the Durable Streams protocol.
const dsubKeyPrefix = "ds_"

// openDsubs constructs the engine of stream subscriptions.
func (s *server) openDsubs() {
	s.dsubsOwn = s.owns.part()
	s.dsubs = streamsub.New(streamsub.Ports{
		Records: dsubRecords{natsstore.OpenSealed[dsubRecord](s.store, streams.StreamWakes), s.counts, s.counted[1]},
		Logs:    s.store,
		Streams: dsubStreams{s.durable, s.trust.index},
		Post:    dsubPoster{receivers{s}},
		Gate:    dsubGate{s.trust.index},
		Owns:    s.dsubsOwn,
		Account: dsubBook{s.ledger},
		Quota:   s.counts,
		Pace:    receivers{s},
		Keys:    &s.wakeKeys,
		Sign:    s.keys.signDsub,
		Offset:  durable.FormatOffset,
	}, streamsub.Options{
		BaseURL: s.publicURL() + "/streams",
		Log:     s.opts.Log,
	})
}

// keySet returns the public halves of the signing keys, with a prefix before their IDs.
func (s *server) keySet(ctx context.Context, prefix string) ([]byte, error) {
	keys, err := s.store.Keys(ctx)
	if err != nil {
		return nil, err
	}
	public := make([]webhook.PublicKey, len(keys))
	for i, k := range keys {
		public[i] = webhook.PublicKey{ID: prefix + k.ID, Key: k.Public()}
	}
	return webhook.FormatKeys(public...)
}

// signDsub returns the signature header of a notice of the Durable Streams protocol. The signed
// text starts with the time, followed by a JSON object, so it is never valid for another signature
// scheme.
func (k *keyRing) signDsub(body []byte, at time.Time) (string, error) {
	id, key := k.newest()
	if key == nil {
		return "", errors.New("no signing key yet; retry")
	}
	t := strconv.FormatInt(at.Unix(), 10)
	signature := ed25519.Sign(key, append([]byte(t+"."), body...))
	return fmt.Sprintf("t=%s,kid=%s,ed25519=%s", t, dsubKeyPrefix+id, base64.RawURLEncoding.EncodeToString(signature)), nil
}

// dsubRecord is the stored form of a subscription: the URL of its webhook is sealed.
type dsubRecord struct{ streamsub.Subscription }

// Transformed returns a copy in which f was applied to the URL.
func (r dsubRecord) Transformed(key string, f natsstore.Transform) (_ dsubRecord, err error) {
	if r.Config.URL != "" { // only for a webhook
		r.Config.URL, err = f(r.Config.URL, seal.Place(streams.StreamWakes, key, "url"))
	}
	return r, err
}

// dsubRecords stores the subscriptions, and reports changes to the quota counters.
type dsubRecords struct {
	bucket   natsstore.Sealed[dsubRecord]
	counts   *quota.Counts
	caughtUp func()
}

// Get returns a subscription and its revision.
func (r dsubRecords) Get(ctx context.Context, key string) (streamsub.Subscription, uint64, error) {
	record, revision, err := r.bucket.Get(ctx, key)
	return record.Subscription, revision, err
}

// Put stores a subscription.
func (r dsubRecords) Put(ctx context.Context, key string, s streamsub.Subscription, revision uint64) (uint64, error) {
	return r.bucket.Put(ctx, key, dsubRecord{s}, revision)
}

// Delete removes a subscription.
func (r dsubRecords) Delete(ctx context.Context, key string, revision uint64) error {
	return r.bucket.Delete(ctx, key, revision)
}

// Watch calls change for every subscription.
func (r dsubRecords) Watch(ctx context.Context, change func(key string, s *streamsub.Subscription, revision uint64)) error {
	return r.bucket.Watch(ctx, func(e natsstore.Entry[dsubRecord]) {
		switch e.Change {
		case natsstore.Set:
			r.counts.Set(e.Value.Sends())
			change(e.Key, &e.Value.Subscription, e.Revision)
		case natsstore.Removed:
			r.counts.Remove(streamsub.CountedID(e.Key))
			change(e.Key, nil, e.Revision)
		case natsstore.CaughtUp:
			r.caughtUp()
		}
	})
}

// dsubStreams gives the engine of stream subscriptions access to streams.
type dsubStreams struct {
	engine *durable.Engine
	index  *authz.Index
}

// Tail returns the end of a stream, and false if the stream does not exist.
func (w dsubStreams) Tail(ctx context.Context, namespace string, path sluice.Path) (uint64, bool, error) {
	info, err := w.engine.Head(ctx, durable.Key{Namespace: namespace, Path: path})
	switch sluice.CodeOf(err) { //nolint:exhaustive // the other codes say that it is not known
	case "":
		return info.Next, true, nil
	case sluice.NotFound, sluice.StreamGone:
		return 0, false, nil
	}
	return 0, false, err
}

// Visible returns the last message of a stream that a caller may see.
func (w dsubStreams) Visible(ctx context.Context, who sluice.Caller, namespace string, path sluice.Path, upTo uint64) (uint64, error) {
	if who.Unbounded() {
		return upTo, nil
	}
	return w.engine.LastVisible(ctx, durable.Key{Namespace: namespace, Path: path}, upTo, visibleTo(w.index, who))
}

// visibleTo returns a filter for the events that a caller may be woken for.
func visibleTo(index *authz.Index, who sluice.Caller) durable.Show {
	return func(ev *sluice.Event) (bool, error) {
		d := index.Shows(who, sluice.VerbSubscribe, ev, time.Now())
		if d == model.Undecided {
			return false, model.PermissionsUnknown()
		}
		return d == model.Pass, nil
	}
}

// Append appends a message to a stream on behalf of a caller.
func (w dsubStreams) Append(ctx context.Context, namespace string, path sluice.Path, message []byte, by sluice.Caller) error {
	_, err := w.engine.Append(ctx, durable.Key{Namespace: namespace, Path: path}, durable.Append{
		ContentType: durable.JSONType, Body: message,
		Admit: func(_ context.Context, events []sluice.Event) error {
			for i := range events {
				events[i].ProducedBy(by.Principal, w.index.AuthType(by))
			}
			return nil
		},
	})
	return err
}

// dsubPoster sends notices.
type dsubPoster struct{ receivers }

// Check returns an error if the URL is not allowed.
func (p dsubPoster) Check(ctx context.Context, url string) error {
	return p.receivers.Check(ctx, sluice.Endpoint{URL: url})
}

// Post sends a notice.
func (p dsubPoster) Post(ctx context.Context, url string, header http.Header, body []byte, timeout time.Duration) streamsub.Answer {
	reply := p.server.sender.Post(ctx, url, header, body, timeout)
	answer := streamsub.Answer{OK: reply.Outcome == sluice.Delivered, Error: reply.Error}
	if reply.Whole {
		answer.Body = reply.Body
	}
	return answer
}

// dsubBook records the creation and removal of subscriptions in the ledger.
type dsubBook struct{ ledger *ledger.Ledger }

// Made records that a subscription is about to be created.
func (b dsubBook) Made(ctx context.Context, s *streamsub.Subscription) (func(error), error) {
	return b.intend(ctx, s, ledger.Change{Actor: string(s.Principal), Action: sluice.ActionStreamWakeCreate, New: s.Config})
}

// Removed records that a subscription is about to be removed.
func (b dsubBook) Removed(ctx context.Context, s *streamsub.Subscription, by sluice.Principal) (func(error), error) {
	return b.intend(ctx, s, ledger.Change{Actor: string(by), Action: sluice.ActionStreamWakeDelete, Old: s.Config})
}

func (b dsubBook) intend(ctx context.Context, s *streamsub.Subscription, c ledger.Change) (func(error), error) {
	c.Namespace, c.Resource = s.Namespace, cmp.Or(s.Root, "/")+" "+s.ID
	intent, err := b.ledger.Intend(ctx, nil, c)
	return func(cause error) { intent.Fail(ctx, cause) }, err
}

// dsubGate decides about the permissions of subscriptions' creators.
type dsubGate struct{ index *authz.Index }

// Shows decides whether a caller may learn that a stream ends at a position.
func (g dsubGate) Shows(who sluice.Caller, namespace string, path sluice.Path, seq uint64) model.Decision {
	return g.index.Shows(who, sluice.VerbSubscribe, &sluice.Event{Namespace: namespace, Path: path, Seq: seq}, time.Now())
}

// Writes decides whether a caller may append to a stream.
func (g dsubGate) Writes(who sluice.Caller, namespace string, path sluice.Path) model.Decision {
	return decisionOf(g.index.Require(who, sluice.VerbPublish, authz.Target{Namespace: namespace, Path: path}, time.Now()))
}

// Holds decides whether the owner of a subscription still has any access.
func (g dsubGate) Holds(wish *sluice.Subscription) model.Decision {
	return g.index.Holds(wish, time.Now())
}

func decisionOf(err error) model.Decision {
	switch {
	case err == nil:
		return model.Pass
	case sluice.CodeOf(err) == sluice.Unavailable:
		return model.Undecided
	}
	return model.Lost
}
