package eventlog

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// trustedQueue is the queue group of all servers: one of them receives each event.
const trustedQueue = "sluice"

// Error codes of JetStream for messages that this server refuses. Clients know these codes.
const (
	codeBadRequest  = 10003
	codeUnavailable = 10008
	codeInternal    = 10000
)

// Trusted receives the messages of trusted publishers under streams.TrustedSubjects. It adds a
// stamp that proves the auth attributes to each message, and publishes the message to the log,
// otherwise unchanged. It forwards the answer of JetStream to the publisher. It keeps no state in
// between, because the reply subject of the publisher is part of the one that Trusted uses. If a
// server stops before it has forwarded an answer, the publisher sends the message again.
type Trusted struct {
	log     *Log
	answers string // prefix of the reply subjects of this server
	subs    []*nats.Subscription
}

// OpenTrusted starts to receive messages of trusted publishers. Run stops that. The store must be
// provisioned.
func (l *Log) OpenTrusted(ctx context.Context) (*Trusted, error) {
	ctx, cancel := context.WithTimeout(ctx, natsstore.RequestTimeout)
	defer cancel()
	t := &Trusted{log: l, answers: l.core.Conn().NewInbox() + "."}
	answers, err := l.core.Conn().Subscribe(t.answers+">", t.answer)
	if err != nil {
		return nil, fmt.Errorf("trusted publishers: %w", err)
	}
	events, err := l.core.Conn().QueueSubscribe(l.core.Names().TrustedSubjects(streams.AnyNamespace), trustedQueue, t.take)
	if err == nil {
		err = l.core.Conn().FlushWithContext(ctx)
	}
	if err != nil {
		_ = answers.Unsubscribe() // both fail only if the connection is lost, and with it the subscriptions
		if events != nil {
			_ = events.Unsubscribe()
		}
		return nil, fmt.Errorf("trusted publishers: %w", err)
	}
	t.subs = []*nats.Subscription{events, answers}
	return t, nil
}

// Run waits until ctx is done, and stops receiving. It returns nil then.
func (t *Trusted) Run(ctx context.Context) error {
	<-ctx.Done()
	for _, sub := range t.subs {
		if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			return fmt.Errorf("trusted publishers: %w", err)
		}
	}
	return nil
}

func (t *Trusted) take(msg *nats.Msg) {
	next, err := t.stamped(msg)
	if err != nil {
		t.refuse(msg, http.StatusBadRequest, codeBadRequest, err)
		return
	}
	if err := t.log.core.Conn().PublishMsg(next); err != nil {
		t.refuse(msg, http.StatusInternalServerError, codeInternal, err)
	}
}

// stamped returns the message to be stored.
func (t *Trusted) stamped(msg *nats.Msg) (*nats.Msg, error) {
	for name := range msg.Header {
		if len(name) >= len(streams.HeaderOwn) && strings.EqualFold(name[:len(streams.HeaderOwn)], streams.HeaderOwn) {
			return nil, sluice.Errorf(sluice.InvalidRequest, "header %s: names that start with %s are reserved", name, streams.HeaderOwn)
		}
	}
	if msg.Header.Get(jetstream.MsgTTLHeader) != "" {
		return nil, sluice.Errorf(sluice.InvalidRequest, "header %s: retention is set on the namespace; omit the header", jetstream.MsgTTLHeader)
	}
	subject, _ := t.log.core.Names().FromTrusted(msg.Subject)
	_, path, err := t.log.core.Names().ParseSubject(subject)
	if err != nil {
		return nil, err
	}
	if path.Reserved() {
		return nil, sluice.Errorf(sluice.Forbidden, "path %q: paths that start with /_sys or /$ are reserved", path)
	}
	next := &nats.Msg{Subject: subject, Header: msg.Header, Data: msg.Data}
	if wantsAnswer(msg) {
		next.Reply = t.answers + msg.Reply
	}
	if err := t.giveID(next); err != nil {
		return nil, err
	}
	return next, t.log.stamps.seal(next)
}

// wantsAnswer reports whether a publisher has requested an answer to an inbox. Other subjects are
// not allowed, because this server may write to subjects to which the publisher may not.
func wantsAnswer(msg *nats.Msg) bool { return strings.HasPrefix(msg.Reply, "_") }

// giveID adds an ID to a message that has auth attributes and no ID: without an ID, each copy of
// the message would be another event.
func (t *Trusted) giveID(msg *nats.Msg) error {
	var w written
	if err := w.read(t.log.core.Names(), msg.Subject, msg.Header, msg.Data); err != nil {
		return err
	}
	if hasAuth(w.Extensions) && w.ID == "" && w.msgID == "" {
		if msg.Header == nil {
			msg.Header = nats.Header{}
		}
		msg.Header.Set(streams.HeaderMsgID, rand.Text())
	}
	return nil
}

// answer forwards an answer of JetStream to the reply subject of the publisher, which is part of
// the subject of the answer.
func (t *Trusted) answer(msg *nats.Msg) {
	to := &nats.Msg{Subject: strings.TrimPrefix(msg.Subject, t.answers), Header: msg.Header, Data: msg.Data}
	if len(msg.Data) == 0 && msg.Header.Get(natsstore.HeaderStatus) == natsstore.StatusNoAnswer {
		to.Header, to.Data = nil, refusal(http.StatusServiceUnavailable, codeUnavailable, "no log accepts events for this namespace; check that it exists")
	}
	t.send(to)
}

func (t *Trusted) refuse(msg *nats.Msg, status, code int, err error) {
	if wantsAnswer(msg) {
		t.send(&nats.Msg{Subject: msg.Reply, Data: refusal(status, code, err.Error())})
	}
}

func (t *Trusted) send(msg *nats.Msg) {
	if err := t.log.core.Conn().PublishMsg(msg); err != nil {
		t.log.core.Log().Warn("response to a trusted publisher", slog.Any("error", err))
	}
}

// refusal returns an error answer in the format of JetStream.
func refusal(status, code int, text string) []byte {
	var answer struct {
		Error struct {
			Code        int    `json:"code"`
			ErrCode     int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
		Stream string `json:"stream"`
		Seq    uint64 `json:"seq"`
	}
	answer.Error.Code, answer.Error.ErrCode, answer.Error.Description = status, code, text
	data, _ := json.Marshal(answer) // numbers and strings can always be encoded
	return data
}
