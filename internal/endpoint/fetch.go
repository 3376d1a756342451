package endpoint

import (
	"fmt"
	"io"
	"net/http"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Fetch sends a request unchanged except for its User-Agent, with the address checks of every
// attempt. It returns the head of the response, and its body of at most most bytes. It does not
// follow redirects. Codes: those of Check; Unavailable if there is no complete response; TooLarge;
// Unprocessable for a response in an encoding that was not asked for. Only the request's context
// limits the time. The body of head is closed.
func (s *Sender) Fetch(req *http.Request, most int64) (head *http.Response, body []byte, err error) {
	if _, err := s.checkURL(req.URL.String()); err != nil {
		return nil, nil, err
	}
	ctx := req.Context()
	req.Header.Set("User-Agent", s.agent)
	res, err := s.transport.RoundTrip(req)
	if err != nil {
		why := "the time is over"
		if ctx.Err() == nil {
			why = failure(ctx, err, setUp)
		}
		return nil, nil, sluice.Errorf(sluice.Unavailable, "no response from %s: %s", req.URL.Host, why)
	}
	defer func() { _ = res.Body.Close() }() // everything needed was read
	if encoding := res.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, nil, sluice.Errorf(sluice.Unprocessable, "the response of %s is encoded as %q, which was not asked for", req.URL.Host, clip(encoding, 64))
	}
	body, err = io.ReadAll(io.LimitReader(res.Body, most+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("%w: %w", sluice.Errorf(sluice.Unavailable, "the response of %s ended early", req.URL.Host), err)
	case int64(len(body)) > most:
		return nil, nil, sluice.Errorf(sluice.TooLarge, "the response of %s has more than %d bytes", req.URL.Host, most)
	}
	return res, body, nil
}
