package wake

import (
	"context"
	"errors"
	"slices"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Admit refuses a caller without a valid token for a consumer, as Call does. The HTTP handler calls
// it before it reads the body, which costs memory. An expired token passes, because Call may
// exchange it. Codes: WakeTokenInvalid, WakeGone, Unavailable.
func (e *Engine) Admit(ctx context.Context, namespace, consumer, token string) error {
	_, err := e.identified(ctx, namespace, consumer, token)
	return err
}

// Call handles a callback of a consumer, authenticated by a token. It checks in this order: a token
// is present, the consumer exists, the token is valid for it, the body is a callback, the rules of
// Step. A refusal has one of the codes of S1 (S1-85…91). With WakeTokenExpired, the answer carries
// a new token if the old one is of the current epoch (register C28). Other codes: Unavailable.
func (e *Engine) Call(ctx context.Context, namespace, consumer, token string, body []byte) (model.WakeAnswer, error) {
	call, err := e.identified(ctx, namespace, consumer, token)
	if err != nil {
		return model.WakeAnswer{}, err
	}
	answer, err := call.take(ctx, body)
	if errors.Is(err, errLost) {
		e.revoke(ctx, call.sub)
		err = gone()
	}
	e.ports.Observe.CalledBack(call.sub, sluice.CodeOf(err))
	return answer, err
}

// identified returns the call of an existing consumer with a valid token, which may have expired.
func (e *Engine) identified(ctx context.Context, namespace, consumer, token string) (*call, error) {
	if token == "" {
		return nil, sluice.Errorf(sluice.WakeTokenInvalid, "send the header Authorization: Bearer <token>")
	}
	id, path, ok := model.ParseWakeConsumerID(consumer)
	if !ok {
		return nil, gone()
	}
	sub, err := e.subscription(ctx, id)
	if err != nil {
		return nil, err
	}
	if sub == nil || sub.Namespace != namespace || sub.State == sluice.Cancelled {
		return nil, gone()
	}
	c := &call{engine: e, sub: sub, id: model.WakeConsumerID(id, path), path: path, token: token}
	if err := c.identify(); err != nil {
		err = c.orGone(ctx, err)
		e.ports.Observe.CalledBack(sub, sluice.CodeOf(err))
		return nil, err
	}
	return c, nil
}

// call is a callback in progress.
type call struct {
	engine *Engine
	sub    *sluice.Subscription
	id     string
	path   sluice.Path
	token  string
	cb     Callback

	claim   Claim
	expired error // WakeTokenExpired if the token has expired
	tails   Tails
}

// identify returns an error if the token is invalid for every state of the consumer: this server
// did not sign it, or it belongs to another consumer (S1-148).
func (c *call) identify() error {
	claim, err := verify(c.engine.ports.Keys, c.token, c.engine.opts.Now())
	if sluice.CodeOf(err) == sluice.WakeTokenExpired {
		c.expired, err = err, nil
	}
	if err == nil && (claim.Consumer != c.id || claim.Namespace != c.sub.Namespace) {
		err = sluice.Errorf(sluice.WakeTokenInvalid, "the token does not belong to this consumer")
	}
	c.claim = claim
	return err
}

// orGone returns WakeGone if the consumer does not exist, otherwise why: WakeGone precedes all
// other errors of a callback. It takes no lock, so a caller that guesses tokens cannot block the
// consumer.
func (c *call) orGone(ctx context.Context, why error) error {
	known := c.known()
	if known.Revision == 0 {
		var err error
		if known, err = c.engine.ports.Records.Get(ctx, c.sub.ID, c.path); err != nil {
			return err
		}
	}
	if now := &known.Consumer; known.Revision == 0 || now.Of != incarnation(c.sub) || now.State == sluice.WakeRemoved {
		return gone()
	}
	return why
}

// known returns the consumer's entry in this process's memory.
func (c *call) known() Entry {
	if r := c.engine.runner(c.sub.ID); r != nil {
		return r.entry(c.path)
	}
	return Entry{}
}

// take reads the body and executes the callback.
func (c *call) take(ctx context.Context, body []byte) (model.WakeAnswer, error) {
	cb, err := ParseCallback(body, c.engine.ports.Streams.ParseOffset)
	if err != nil {
		return model.WakeAnswer{}, c.orGone(ctx, err)
	}
	c.cb = cb
	return c.do(ctx)
}

func (c *call) do(ctx context.Context) (model.WakeAnswer, error) {
	stored, err := c.engine.change(ctx, c.sub, c.path, c.known(), c.decide)
	if sluice.CodeOf(err) == sluice.WakeTokenExpired && c.claim.renewable(c.engine.opts.Now()) {
		fresh, failed := newToken(c.engine.ports.Keys, c.claim, c.engine.opts.Now())
		if failed != nil {
			return model.WakeAnswer{}, failed
		}
		return model.WakeAnswer{Token: fresh}, err
	}
	if err != nil {
		return model.WakeAnswer{}, err
	}
	answer := model.WakeAnswer{Streams: []model.WakeAcked{}}
	if stored.Consumer.State != sluice.WakeRemoved {
		answer.Streams = stored.Consumer.offsets(c.tails, c.engine.ports.Streams.FormatOffset)
	}
	answer.Token, err = next(c.engine.ports.Keys, c.token, c.claim, c.engine.opts.Now())
	return answer, err
}

// decide turns a callback into the input of Step for the consumer's present state.
func (c *call) decide(ctx context.Context, now Consumer) (Input, error) {
	if now.State == sluice.WakeRemoved {
		return Input{}, gone()
	}
	if err := c.admit(now); err != nil {
		return Input{}, err
	}
	paths := now.Paths()
	for _, path := range c.cb.names() {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	var err error
	if c.tails, err = c.engine.tails(ctx, c.sub, now.Path, paths); err != nil {
		return Input{}, err
	}
	in := Input{Tails: c.tails, Callback: &c.cb}
	if slices.ContainsFunc(c.cb.Acks, func(p Position) bool { return !c.tails[p.Path].valid(p.Acked, now.acked(p.Path), 0) }) {
		in.End, err = c.engine.ports.Streams.End(ctx, c.sub.Namespace)
	}
	return in, err
}

// admit returns an error if the token is not valid for the consumer's present state. It must belong
// to this incarnation of the subscription and to the current epoch (S1-148), and must not have
// expired. An expired token of an earlier epoch is refused as stale, because it is not exchanged
// (register C28).
func (c *call) admit(now Consumer) error {
	switch {
	case c.claim.Of != now.Of:
		return sluice.Errorf(sluice.WakeTokenInvalid, "the token does not belong to this consumer")
	case c.expired != nil && c.claim.Epoch != now.Epoch:
		return sluice.Errorf(sluice.WakeStale, "the epoch is %d, not %d: stop", now.Epoch, c.claim.Epoch)
	case c.expired == nil && c.cb.Epoch == now.Epoch && c.claim.Epoch != now.Epoch:
		return sluice.Errorf(sluice.WakeTokenInvalid, "the token is of another epoch")
	}
	return c.expired
}
