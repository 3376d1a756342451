// Package remote reads the changes of namespaces on other servers.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	pageItems = 100       // of every request: S3-43
	pageBytes = 32 << 20  // of a response: events of 4 MiB and one more, which may take three times as much in JSON
	textBytes = 256 << 10 // of a response about a token
)

// Fetcher sends requests to public addresses only.
type Fetcher interface {
	// Check returns the reason why a URL is not allowed: InsecureURL, BlockedAddress, InvalidRequest.
	Check(ctx context.Context, endpoint sluice.Endpoint) error
	// Fetch returns the head and the body of a response. It reads at most most bytes of the body,
	// and closes it.
	Fetch(req *http.Request, most int64) (head *http.Response, body []byte, err error)
}

// Source reads from other servers. All its requests for changes have the same form, so the source
// cannot infer which paths a mirror wants or has (S3-137). It is safe for concurrent use, keeps no
// state, and does not repeat a request: the engine backs off.
type Source struct{ Fetcher Fetcher }

// Observe returns a page of the changes of a mirror's source after a sequence. Codes
// Unauthenticated, Forbidden, CapabilityRequired and NotFound of the source; Unavailable; TooLarge;
// Unprocessable if the response is not a page.
//
//	GET <source>/observe?since=420&limit=100&depth=full
//	Authorization: Bearer <credential>
func (s Source) Observe(ctx context.Context, m *sluice.Mirror, credential string, since uint64) (*sluice.ObservePage, error) {
	url := m.Source + "/observe?since=" + strconv.FormatUint(since, 10) + "&limit=" + strconv.Itoa(pageItems) + "&depth=" + string(m.Depth)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, badSource()
	}
	body, err := s.get(req, credential, pageBytes)
	if err != nil {
		return nil, err
	}
	page, err := decodePage(body)
	if err != nil {
		return nil, sluice.Errorf(sluice.Unprocessable, "the response of %s is no page of changes: %.*s", m.Source, maxMessage, err.Error())
	}
	return page, nil
}

// CheckCredential returns an error (Forbidden) if a token permits more than reading, because a
// mirror must not be able to write to its source (S3-142). Code Unprocessable if the source does
// not know the token. It sends the token to POST …/grants/verify of the source, also as the
// credential. Codes InsecureURL, BlockedAddress and InvalidRequest for the URL; Unauthenticated,
// Forbidden, NotFound and Unavailable of the source.
func (s Source) CheckCredential(ctx context.Context, m *sluice.Mirror, credential string) error {
	if err := s.Fetcher.Check(ctx, sluice.Endpoint{URL: m.Source}); err != nil {
		return err
	}
	at := strings.LastIndex(m.Source, "/namespaces/")
	token, err := json.Marshal(map[string]string{"token": credential})
	if err != nil {
		return fmt.Errorf("encode token: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Source[:at]+"/grants/verify", bytes.NewReader(token))
	if err != nil {
		return badSource()
	}
	req.Header.Set("Content-Type", "application/json")
	body, err := s.get(req, credential, textBytes)
	if err != nil {
		return err
	}
	var is struct {
		Grant *struct {
			Verbs []sluice.Verb `json:"verbs"`
		} `json:"grant"`
	}
	if err := json.Unmarshal(body, &is); err != nil || is.Grant == nil {
		return sluice.Errorf(sluice.Unprocessable, "credential: %s does not know it as the token of a grant", m.Source).With("field", "credential")
	}
	for _, verb := range is.Grant.Verbs {
		if !slices.Contains([]sluice.Verb{sluice.VerbRead, sluice.VerbMirror}, verb) {
			return sluice.Errorf(sluice.Forbidden, "credential: the token permits %q; use one of a grant with the verb read alone", verb).With("field", "credential")
		}
	}
	return nil
}

// get returns the body of a response with status 200.
func (s Source) get(req *http.Request, credential string, most int64) ([]byte, error) {
	req.Header.Set("Accept", "application/json")
	if credential != "" {
		req.Header.Set("Authorization", "Bearer "+credential)
	}
	head, body, err := s.Fetcher.Fetch(req, most) //nolint:bodyclose // it was read
	if err != nil || head.StatusCode == http.StatusOK {
		return body, err
	}
	return nil, refusal(head, body, time.Now())
}

// refusal returns the error for an unsuccessful response. If the source is a Sluice server, the
// error has the source's message. Its detail retry_after has the seconds for which an overloaded
// source asks. The message is cut to maxMessage characters, because it reaches logs and statuses.
func refusal(head *http.Response, body []byte, now time.Time) error {
	status := head.StatusCode
	var is struct {
		Error sluice.Error `json:"error"`
	}
	if json.Unmarshal(body, &is) != nil || is.Error.Message == "" {
		is.Error.Message = http.StatusText(status)
	}
	code := sluice.Unavailable
	switch status {
	case http.StatusUnauthorized:
		code = sluice.Unauthenticated
	case http.StatusForbidden:
		code = sluice.Forbidden
	case http.StatusNotFound:
		code = sluice.NotFound
	}
	err := sluice.Errorf(code, "the source responds %d: %.*s", status, maxMessage, is.Error.Message)
	wait := sluice.RetryAfter(head.Header.Get("Retry-After"), now)
	if wait <= 0 || status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return err
	}
	return err.With("retry_after", int(math.Ceil(wait.Seconds())))
}

const maxMessage = 300

func badSource() error {
	return sluice.Errorf(sluice.InvalidRequest, "source: the URL cannot be requested").With("field", "source")
}
