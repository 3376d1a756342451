package endpoint

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Reply is the outcome of a Post.
type Reply struct {
	Outcome    sluice.Outcome // Delivered, Gone, Failed; Refused: nothing was sent, nor will it ever be
	Status     int            // 0: there was no answer
	Body       []byte         // of a 2xx, MaxResponse bytes at most
	Whole      bool           // Body is complete
	Error      string         // a short text, unless it was delivered
	Class      sluice.FailureClass
	RetryAfter time.Duration // requested by the endpoint; 0: none
}

// Post makes a request without an event, to a URL under the guard of every attempt. The headers are
// sent unchanged: the caller has signed the body. It takes as long as timeout at most, over
// connecting, headers and body, and ends as Send does when ctx is done.
func (s *Sender) Post(ctx context.Context, url string, header http.Header, body []byte, timeout time.Duration) Reply {
	defer shutdown.Sending(ctx)()
	until := time.Now().Add(timeout)
	req, err := s.postRequest(ctx, url, header, int64(len(body)))
	if err != nil {
		return Reply{Outcome: sluice.Refused, Error: err.Error()}
	}
	var reply Reply
	err = s.exchange(ctx, call{req: req, body: body, until: until}, func(res *http.Response) (err error) {
		reply, err = s.reply(res)
		return err
	})
	if err != nil {
		return Reply{Outcome: sluice.Failed, Error: failure(ctx, err, timeout), Class: classOf(ctx, err)}
	}
	return reply
}

// postRequest returns a request without its body, which has so many bytes.
func (s *Sender) postRequest(ctx context.Context, url string, header http.Header, size int64) (*http.Request, error) {
	u, err := s.checkURL(url)
	if err != nil {
		return nil, err
	}
	if size > s.opts.MaxBody {
		return nil, sluice.Errorf(sluice.TooLarge, "the request would be larger than webhooks.max_body, %d bytes", s.opts.MaxBody)
	}
	req := post(u, header.Clone())
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("User-Agent", s.agent)
	if s.opts.Trace != nil {
		s.opts.Trace(ctx, req.Header)
	}
	return req, nil
}

// reply returns the meaning of an answer, as read does. It keeps only the body of a 2xx.
func (s *Sender) reply(res *http.Response) (Reply, error) {
	var a sluice.Attempt
	if res.StatusCode < 200 || res.StatusCode > 299 {
		if err := s.read(res, func() mask { return nil }, &a); err != nil {
			return Reply{}, err
		}
		return Reply{Outcome: a.Outcome, Status: a.Status, Error: a.Error, RetryAfter: a.RetryAfter}, nil
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, s.opts.MaxResponse+1))
	if err != nil {
		return Reply{}, err
	}
	kept := min(int64(len(data)), s.opts.MaxResponse)
	return Reply{Outcome: sluice.Delivered, Status: res.StatusCode, Body: data[:kept], Whole: kept == int64(len(data))}, nil
}
