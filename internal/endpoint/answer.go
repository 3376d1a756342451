package endpoint

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const maxExcerpt = 1 << 10 // bytes of a response's body that are stored

// read sets the outcome of a response in a (register C06): 2xx is Delivered, 410 is Gone,
// everything else is Failed. It returns an error if the body of a 2xx is truncated, because the
// endpoint may have died while it processed the event. Of a failure only the status counts, even if
// the body cannot be read. read reads a body to its end, so that the connection can be used again,
// but not beyond MaxResponse; a connection with more data is closed. It sets Status, Outcome,
// Error, RetryAfter and Response, and no other field. It calls secrets only for failures, because
// making a mask is expensive.
func (s *Sender) read(res *http.Response, secrets func() mask, a *sluice.Attempt) error {
	a.Status = res.StatusCode
	body := io.LimitReader(res.Body, s.opts.MaxResponse)
	if res.StatusCode >= 200 && res.StatusCode <= 299 {
		if _, err := io.Copy(io.Discard, body); err != nil {
			return err
		}
		a.Outcome = sluice.Delivered
		return nil
	}
	a.Outcome, a.Error = sluice.Failed, explain(res, secrets())
	if res.StatusCode == http.StatusGone {
		a.Outcome = sluice.Gone
	}
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
		a.RetryAfter = sluice.RetryAfter(res.Header.Get("Retry-After"), s.opts.Now())
	}
	if res.StatusCode >= 200 { // the body of a 101 is an open connection
		a.Response = excerpt(body, secrets())
	}
	return nil
}

// explain describes in one line why the status is a failure. It leaves out the query of a redirect,
// which may hold secrets.
func explain(res *http.Response, secrets mask) string {
	status := "status " + strconv.Itoa(res.StatusCode)
	if res.StatusCode < 300 || res.StatusCode > 399 {
		return status
	}
	to, err := res.Location()
	if err != nil {
		return status
	}
	target := to.Scheme + "://" + to.Host + to.EscapedPath()
	return "redirect to " + clip(secrets.apply(target), 256) + " not followed"
}

// excerpt returns the start of body as valid UTF-8, at most maxExcerpt bytes, without secrets. It
// reads far enough ahead to recognise a secret that begins within these bytes. It returns "" for an
// empty body. If reading fails, the excerpt ends there.
func excerpt(body io.Reader, secrets mask) string {
	head := make([]byte, maxExcerpt+secrets.longest())
	n, err := io.ReadFull(body, head)
	if err == nil {
		_, _ = io.Copy(io.Discard, body) // only to reuse the connection
	}
	return clip(strings.ToValidUTF8(secrets.head(string(head[:n]), maxExcerpt), "\uFFFD"), maxExcerpt)
}

// clip returns s, cut to as many whole characters as fit into limit bytes.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
