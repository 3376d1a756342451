package endpoint

import (
	"fmt"
	"io"
	"net/http"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Fetch sends a request as it is under the guard of every attempt, and returns the status and the body of its response, of which it
// reads at most so many bytes. Redirects are not followed. Codes: those of Check; Unavailable if there is no whole response;
// TooLarge.
func (s *Sender) Fetch(req *http.Request, most int64) (status int, response []byte, err error) {
	if _, err := s.checkURL(req.URL.String()); err != nil {
		return 0, nil, err
	}
	ctx := req.Context()
	req.Header.Set("User-Agent", s.agent)
	res, err := s.transport.RoundTrip(req)
	if err != nil {
		why := "the time is over"
		if ctx.Err() == nil {
			why = failure(ctx, err, 0)
		}
		return 0, nil, sluice.Errorf(sluice.Unavailable, "no response from %s: %s", req.URL.Host, why)
	}
	defer func() { _ = res.Body.Close() }() // what matters was read
	response, err = io.ReadAll(io.LimitReader(res.Body, most+1))
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("%w: %w", sluice.Errorf(sluice.Unavailable, "the response of %s ended early", req.URL.Host), err)
	case int64(len(response)) > most:
		return 0, nil, sluice.Errorf(sluice.TooLarge, "the response of %s has more than %d bytes", req.URL.Host, most)
	}
	return res.StatusCode, response, nil
}
