package host

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/callbacktoken"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// API holds the settings for the requests of programs to the API.
type API struct {
	URL     string             // of the API
	Keys    callbacktoken.Keys // sign the tokens of attempts; nil: programs get no tokens
	Replica string             // name of this server
}

const maxHandlingToken = 16 << 10

// claims is the content of a token: an attempt. Its member is one that no other engine reads.
type claims struct {
	Attempt attempt `json:"module_attempt"`
	callbacktoken.Term
}

// attempt is an attempt with a program that may make requests.
type attempt struct {
	ID           string           `json:"id"`
	Replica      string           `json:"replica"`
	Module       string           `json:"module"`
	Digest       string           `json:"digest"`
	Handler      string           `json:"handler"`
	Subscription string           `json:"subscription"`
	Namespace    string           `json:"namespace"`
	Event        string           `json:"event"`
	Correlation  string           `json:"correlation"`
	Principal    sluice.Principal `json:"principal"`
	Grant        string           `json:"grant,omitempty"`
	Test         bool             `json:"test,omitempty"`
}

// live holds the attempts of this server in which a program may make requests. The zero value is
// ready to use. On this server, a token is worthless when its attempt has ended. Another server
// accepts it until its expiry.
type live struct {
	mu  sync.Mutex
	ids map[string]struct{}
}

func (l *live) enter(id string) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ids == nil {
		l.ids = map[string]struct{}{}
	}
	l.ids[id] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.ids, id)
	}
}

func (l *live) has(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.ids[id]
	return ok
}

// hasAPI reports whether a program may make requests to the API.
func (h *Host) hasAPI(handler *module.Handler) bool {
	return h.opts.API.Keys != nil && handler.Network && len(handler.Publish)+len(handler.Read) > 0
}

// token returns the token of an attempt; "" if its program may make no requests. The token is valid
// on this server until leave is called, and on other servers until its expiry. Nothing is stored.
// Code Unavailable.
func (h *Host) token(m *module.Module, handler *module.Handler, w *model.Handling, until time.Time) (text string, leave func(), err error) {
	if !h.hasAPI(handler) {
		return "", func() {}, nil
	}
	is := attempt{
		ID: rand.Text(), Replica: h.opts.API.Replica, Module: m.Name, Digest: m.Digest, Handler: w.Handler, Subscription: w.Subscription,
		Namespace: w.Namespace, Event: w.Event, Correlation: w.Correlation, Principal: w.By.Principal, Grant: w.By.Grant, Test: w.Test,
	}
	text, err = callbacktoken.Sign(h.opts.API.Keys, claims{is, callbacktoken.Until(until.Add(time.Second - 1))})
	if err != nil {
		return "", nil, err
	}
	return model.HandlingPrefix + text, h.live.enter(is.ID), nil
}

// Handling returns the handling of the program that holds a token. Code Unauthenticated if the
// token is invalid or its attempt has ended. The caller checks the rights of the approver, whose
// grant may have been revoked since.
func (h *Host) Handling(text string) (*model.Handling, error) {
	bare, ok := strings.CutPrefix(text, model.HandlingPrefix)
	if !ok || len(text) > maxHandlingToken || h.opts.API.Keys == nil {
		return nil, invalidToken()
	}
	c, err := callbacktoken.Read[claims](h.opts.API.Keys, bare, h.opts.Now())
	is := c.Attempt
	switch {
	case is.ID == "":
		return nil, invalidToken()
	case err != nil, is.Replica == h.opts.API.Replica && !h.live.has(is.ID):
		return nil, sluice.Errorf(sluice.Unauthenticated, "the attempt that the token was made for has ended")
	}
	handler := h.declared(is.Module, is.Digest, is.Handler)
	if handler == nil {
		return nil, sluice.Errorf(sluice.Unauthenticated, "module %q does not run on this server any more", is.Module)
	}
	return &model.Handling{
		Module: is.Module, Handler: is.Handler, Subscription: is.Subscription, Namespace: is.Namespace, Event: is.Event, Correlation: is.Correlation,
		By: sluice.Caller{Principal: is.Principal, Grant: is.Grant}, Publish: handler.Publish, Read: handler.Read, Test: is.Test,
	}, nil
}

func invalidToken() error {
	return sluice.Errorf(sluice.Unauthenticated, "the token is not that of an attempt of a module on this server")
}

// declared returns a handler of a module that runs here with the files of a digest, nil if there is
// none.
func (h *Host) declared(name, digest, id string) *module.Handler {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.ready[name]
	if m == nil || m.Digest != digest { // not a secret: of files
		return nil
	}
	for i := range m.Manifest.Handlers {
		if m.Manifest.Handlers[i].ID == id {
			return &m.Manifest.Handlers[i]
		}
	}
	return nil
}

// MayKnow returns a function that decides whether a publisher may know of a stored event. A program
// may know of an event that it may publish, if its approver may know of it.
func MayKnow(decide func(context.Context, *sluice.Event) bool) func(context.Context, *sluice.Event) bool {
	return func(ctx context.Context, ev *sluice.Event) bool {
		w := model.HandlingFrom(ctx)
		if w == nil {
			return decide(ctx, ev)
		}
		return w.Admits(ev) == nil && decide(model.WithCaller(ctx, w.By), ev)
	}
}
