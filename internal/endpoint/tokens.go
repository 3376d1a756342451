package endpoint

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/sync/singleflight"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Times of an access token that expires after 60 s:
//
//	0 s            5 s                            45 s             60 s
//	fetched        may be fetched again,          fetched for      expires
//	               if the endpoint refuses it     the next attempt
const (
	tokenTimeout = 15 * time.Second
	tokenPause   = 5 * time.Second // minimum time between two requests for the same token
	tokenLife    = 5 * time.Minute // lifetime of a token without an expiry
	tokenEarly   = 30 * time.Second
	mostTokens   = 4096
)

// tokens caches the OAuth 2 access tokens of endpoints, by their credentials. One attempt fetches a
// token for all attempts that need it, with the address checks of every attempt. The token is not
// fetched again within tokenPause, even if fetching failed or the endpoint refused the token. It
// keeps the mostTokens that were used last, in memory only. It is safe for concurrent use.
type tokens struct {
	client *http.Client
	now    func() time.Time
	flight singleflight.Group
	held   *lru.Cache[[sha256.Size]byte, *credential]
}

// credential is a client of a token endpoint, with its token.
type credential struct {
	config *clientcredentials.Config // caches which form of authentication the token endpoint accepts

	mu      sync.Mutex
	token   *oauth2.Token
	err     error     // in place of the token
	fetched time.Time // zero: not yet
	until   time.Time // token and err are used until then
}

// newTokens returns an empty cache of tokens, which are fetched with a transport. check returns an
// error if a URL is not allowed.
func newTokens(transport http.RoundTripper, check func(string) (*url.URL, error), now func() time.Time) *tokens {
	held, err := lru.New[[sha256.Size]byte, *credential](mostTokens)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &tokens{now: now, held: held, client: &http.Client{
		Transport: checked{transport, check},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}
}

// checked sends requests only to allowed URLs.
type checked struct {
	http.RoundTripper

	check func(string) (*url.URL, error)
}

func (c checked) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, err := c.check(req.URL.String()); err != nil {
		return nil, err
	}
	return c.RoundTripper.RoundTrip(req)
}

// of returns the access token for a subscription's requests. It waits at most until the time until.
// If that time comes or ctx ends, it returns the context's error, while the fetch goes on for other
// attempts. Other errors are those of the token endpoint, or of check.
func (t *tokens) of(ctx context.Context, sub *sluice.Subscription, until time.Time) (*oauth2.Token, error) {
	key, c, err := t.credential(sub)
	if err != nil {
		return nil, err
	}
	if token, err, ok := c.usable(t.now()); ok {
		return token, err
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-t.flight.DoChan(string(key[:]), func() (any, error) { return t.fetch(ctx, c) }):
		// Not what c has: if the cache dropped the client meanwhile, the fetch filled another credential.
		token, _ := got.Val.(*oauth2.Token)
		if token == nil && got.Err == nil {
			return nil, errors.New("no token was fetched")
		}
		return token, got.Err
	}
}

// credential returns the cache entry of a subscription's client, and its key.
func (t *tokens) credential(sub *sluice.Subscription) (key [sha256.Size]byte, _ *credential, err error) {
	auth := sub.Endpoint.Auth
	identity, err := json.Marshal([]any{auth, sub.Credentials.ClientSecret})
	if err != nil {
		return key, nil, fmt.Errorf("encode the client: %w", err)
	}
	key = sha256.Sum256(identity)
	if c, ok := t.held.Get(key); ok {
		return key, c, nil
	}
	c := &credential{config: &clientcredentials.Config{
		ClientID: auth.ClientID, ClientSecret: sub.Credentials.ClientSecret, TokenURL: auth.TokenURL, Scopes: auth.Scopes,
	}}
	if auth.Audience != "" {
		c.config.EndpointParams = url.Values{"audience": {auth.Audience}}
	}
	if was, ok, _ := t.held.PeekOrAdd(key, c); ok {
		c = was
	}
	return key, c, nil
}

// usable returns the token, or the error of fetching it, and whether these may still be used.
func (c *credential) usable(now time.Time) (*oauth2.Token, error, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token, c.err, now.Before(c.until)
}

// fetch requests a token and keeps it in c, unless another attempt has just done so. It may outlive
// the attempt that began it. It does not end with ctx, because other attempts wait for its result,
// but after tokenTimeout at the latest.
func (t *tokens) fetch(ctx context.Context, c *credential) (*oauth2.Token, error) {
	if token, err, ok := c.usable(t.now()); ok {
		return token, err
	}
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, t.client)
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	token, err := c.config.Token(ctx)
	if err == nil && !isHeaderValue(token.Type()+" "+token.AccessToken) {
		err = errors.New("the token is not a valid header")
	}
	now := t.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token, c.err, c.fetched, c.until = token, err, now, now.Add(tokenPause)
	if err == nil {
		c.until = usableUntil(token, now)
	}
	return token, err
}

// authorize adds the access token to the headers of a subscription's request and returns it; nil if
// the endpoint needs none.
func (s *Sender) authorize(ctx context.Context, sub *sluice.Subscription, header http.Header, until time.Time) (*oauth2.Token, error) {
	if sub.Endpoint.Auth == nil {
		return nil, nil //nolint:nilnil // most endpoints need none
	}
	token, err := s.tokens.of(ctx, sub, until)
	if err != nil {
		return nil, err
	}
	header["Authorization"] = []string{token.Type() + " " + token.AccessToken}
	return token, nil
}

// checkTokenURL is Check for a token endpoint.
func (s *Sender) checkTokenURL(ctx context.Context, address string) error {
	u, err := s.checkURL(address)
	if err == nil {
		err = s.guard.checkHost(ctx, u.Hostname())
	}
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		return sluice.Errorf(e.Code, "endpoint.auth.token_url: %s", e.Message).With("field", "endpoint.auth.token_url")
	}
	return err
}

// usableUntil returns when a token has to be fetched again: some time before its expiry, but not
// within tokenPause.
func usableUntil(token *oauth2.Token, now time.Time) time.Time {
	life := tokenLife
	if !token.Expiry.IsZero() {
		life = time.Until(token.Expiry)
	}
	return now.Add(max(tokenPause, life-min(tokenEarly, life/4)))
}

// refused records that an endpoint did not accept a token. A later attempt gets another token, but
// not within tokenPause of fetching this one. If another attempt has fetched a newer token
// meanwhile, nothing changes.
func (t *tokens) refused(sub *sluice.Subscription, token *oauth2.Token) {
	_, c, err := t.credential(sub)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == token { // not a secret: compares pointers, not texts
		c.until = minTime(c.until, c.fetched.Add(tokenPause))
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// noToken describes why there is no access token.
func noToken(ctx context.Context, sub *sluice.Subscription, err error, timeout time.Duration) string {
	from := sluice.HideURL(sub.Endpoint.Auth.TokenURL)
	if refusal, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		status := 0
		if refusal.Response != nil {
			status = refusal.Response.StatusCode
		}
		reason := strings.TrimSpace(strings.Join([]string{refusal.ErrorCode, refusal.ErrorDescription}, " "))
		return clip(strings.TrimSpace(fmt.Sprintf("no access token: %s responded with status %d %s", from, status, reason)), 512)
	}
	why := failure(ctx, err, timeout)
	if refused, ok := errors.AsType[*sluice.Error](err); ok { // an error of checkURL
		why = refused.Message
	}
	if why == noResponse {
		why = "the response has no valid token"
	}
	return "no access token from " + from + ": " + why
}
